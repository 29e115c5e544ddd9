//! What [`attention`](super::attention()) decides for a call, in words.

use std::fmt::Write;

use rocfire_hal::{Device, Function, View};

use super::attention::choice;
use super::attention_backward::prepare;
use super::choice::{Gradients, decide};
use super::problem::{Prepared, readable};
use super::{AttentionInputs, AttentionParams, AttentionSaved, aiter, plain};
use crate::Result;
use crate::aiter::Role;
use crate::attached::Attached;

/// A call's shape and the device, in words.
fn title(what: &str, device: &Device, p: &Prepared<'_>) -> String {
    let (dtype, causal) = (p.inputs.q.dtype(), if p.problem.right == 0 { " causal" } else { "" });
    let (batches, heads, kv_heads) = (p.batches, p.heads, p.heads / p.group);
    format!(
        "{what} {dtype} {batches}x{heads}/{kv_heads}x{}x{}, heads of {}/{}{causal} on {}, {} compute units\n",
        p.q_rows,
        p.k_rows,
        p.depth,
        p.value_depth,
        device.arch(),
        device.info().compute_units
    )
}

/// What becomes of a call by AITER's kernels: against it, or the kernel where the device has it, and why that goes first.
fn theirs(device: &Device, call: Result<(Role, Option<Function>), &'static str>, why: &str) -> String {
    match call {
        Err(against) => format!("not for this: {against}"),
        Ok((_, Some(kernel))) => format!("{}, which goes first: {why}", kernel.name()),
        Ok((role, None)) => format!("would go first, but {}", Attached::of(device).aiter(device).absence(device, role)),
    }
}

/// Which kernel [`attention`](super::attention()) takes for these inputs on a device, and why. Computes nothing; on a
/// device that runs nothing it says what one of that architecture would be given.
///
/// # Errors
/// As [`attention`](super::attention()), of its inputs and parameters.
pub fn explain(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    params: &AttentionParams,
    out: View<'_>,
    lse: Option<View<'_>>,
) -> Result<String> {
    let p = Prepared::new("attention", device.stream(), inputs, params)?;
    let info = device.arch().info();
    let mut text = title("attention", device, &p);
    let is_plain = lse.is_none() && plain::is_taken(info, &p, params);
    let call = if readable(&out) { aiter::Call::of(&p, &out, lse) } else { Err("the result lies in no whole vectors") };
    let theirs = theirs(device, call.map(|call| (call.role(), call.kernel(device))), aiter::WHY);
    writeln!(text, "  AITER       {theirs}").expect("a string takes text");
    if is_plain {
        text += "  ours        by multiply-add: f32 with heads of 32 or 64 and at most a bias";
        return Ok(text);
    }
    let depths = [Prepared::padded(p.depth), Prepared::padded(p.value_depth)];
    let choice = choice(info, device.config().matrix, &p, depths);
    let tile = choice.tile;
    let product = match tile.size {
        0 => "fused multiply-add, no matrix unit of the type".to_owned(),
        side => format!("{} waves of products of {side} x {side} on the matrix unit", tile.waves),
    };
    let slices = match choice.slices {
        None => "all keys by one workgroup".to_owned(),
        Some(slices) => format!("keys in {} slices of {}, as there are few workgroups", slices.count, slices.rows),
    };
    let [tiles, of_heads] = choice.grid;
    write!(
        text,
        "  ours        tiles of {} queries by {} keys; {product}\n  workgroups  {} = {tiles} x {of_heads} x {}; {slices}",
        tile.resident_rows(),
        tile.streamed,
        tiles * of_heads * p.batches * choice.slices.map_or(1, |slices| slices.count),
        p.batches,
    )
    .expect("a string takes text");
    Ok(text)
}

/// Which kernels [`attention_backward`](super::attention_backward()) takes for these inputs on a device, and why. As [`explain`].
///
/// # Errors
/// As [`attention_backward`](super::attention_backward()), of its inputs, parameters and what the forward left.
pub fn explain_backward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    params: &AttentionParams,
    gradients: [View<'_>; 3],
) -> Result<String> {
    let p = prepare(device.stream(), inputs, saved, params)?;
    let (info, dtype) = (device.arch().info(), inputs.q.dtype());
    let views = aiter::backward::Views { dout: saved.dout, lse: saved.lse, gradients };
    let is_readable = [saved.dout].iter().chain(&gradients).all(readable);
    let call = match is_readable {
        true => aiter::backward::Call::of(device, &p, views),
        false => Err("a gradient lies in no whole vectors"),
    };
    let theirs = theirs(device, call.map(|call| (call.role(), call.kernel(device))), aiter::backward::WHY);
    let depths = [Prepared::padded(p.depth), Prepared::padded(p.value_depth)];
    let of = Gradients { dtype, depths, extra: p.extra(), rows: [p.q_rows, p.k_rows] };
    let chosen = decide(info, device.config().matrix, &of);
    let keys = match chosen.keys.iter().flatten().count() {
        1 => "keys and values",
        _ => "values, then of keys,",
    };
    let tile = chosen.keys.iter().flatten().next().map_or(0, |key| key.tile.resident_rows());
    Ok(format!(
        "{}  AITER       {theirs}\n  ours        gradients of queries by tiles of {} queries, of {keys} by tiles of {tile} keys",
        title("gradients of attention", device, &p),
        chosen.queries.tile.resident_rows(),
    ))
}

#[cfg(test)]
mod tests {
    use rocfire_hal::{Config, DType, Device, DeviceId, Tensor};

    use super::*;

    fn words(config: Config, dtype: DType, rows: usize, causal: bool) -> String {
        let device = Device::open(DeviceId::emulated("gfx942").unwrap(), config).unwrap();
        let made = || Tensor::empty(&device, &[1, 64, rows, 128], dtype).unwrap();
        let (q, k, v, out) = (made(), made(), made(), made());
        let (q, k, v) = (q.view(), k.view(), v.view());
        let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        let params = AttentionParams { causal, ..AttentionParams::default() };
        explain(&device, &inputs, &params, out.view(), None).unwrap()
    }

    fn words_of_gradients(config: Config, dtype: DType, rows: usize) -> String {
        words_of_gradients_on("gfx942", config, dtype, rows, false)
    }

    fn words_of_gradients_on(card: &str, config: Config, dtype: DType, rows: usize, causal: bool) -> String {
        let device = Device::open(DeviceId::emulated(card).unwrap(), config).unwrap();
        let made = || Tensor::empty(&device, &[1, 2, rows, 128], dtype).unwrap();
        let tensors: [Tensor; 8] = std::array::from_fn(|_| made());
        let [q, k, v, out, dout, dq, dk, dv] = tensors.each_ref().map(Tensor::view);
        let lse = Tensor::empty(&device, &[1, 2, rows], DType::F32).unwrap();
        let inputs = AttentionInputs { q, k, v, mask: None, bias: None, starts: None, slopes: None, sinks: None };
        let saved = AttentionSaved { out, lse: lse.view(), dout };
        let params = AttentionParams { causal, ..AttentionParams::default() };
        explain_backward(&device, &inputs, &saved, &params, [dq, dk, dv]).unwrap()
    }

    #[test]
    fn says_what_is_taken_of_gradients_and_that_bits_have_to_be_let_differ() {
        let nowhere = Config::default().with_aiter(true).with_aiter_dir("/nowhere/at/all".into());
        let same = words_of_gradients(nowhere.clone(), DType::BF16, 640);
        assert!(same.contains("not for this: its atomics") && same.contains("ROCFIRE_DETERMINISTIC=0"), "{same}");
        let set = words_of_gradients(nowhere.clone().with_deterministic(true), DType::BF16, 640);
        assert!(set.contains("not for this: its atomics"), "{set}");
        let missing = words_of_gradients(nowhere.with_deterministic(false), DType::BF16, 640);
        assert!(missing.contains("would go first, but") && missing.contains("/nowhere/at/all"), "{missing}");
        assert!(
            missing.contains("gradients of queries by tiles of") && missing.contains("of keys and values"),
            "{missing}"
        );
        let config = Config::default().with_aiter(true).with_deterministic(false);
        let racing = words_of_gradients_on("gfx950", config, DType::BF16, 640, true);
        assert!(racing.contains("would go first, but none is known to be right for gfx950 of"), "{racing}");
        let few = words_of_gradients(Config::default().with_deterministic(false), DType::BF16, 100);
        assert!(few.contains("not for this: fewer than 128 queries"), "{few}");
    }

    #[test]
    fn says_what_is_taken_and_what_goes_before_it() {
        let large = words(Config::default(), DType::BF16, 640, false);
        assert!(large.contains("would go first, but ROCFIRE_AITER=0 or what it comes to"), "{large}");
        assert!(large.contains("on the matrix unit") && large.contains("all keys by one workgroup"), "{large}");
        assert!(large.contains("tiles of 256 queries"), "{large}");
        let nowhere = Config::default().with_aiter(true).with_aiter_dir("/nowhere/at/all".into());
        let missing = words(nowhere, DType::BF16, 640, true);
        assert!(missing.contains("causal") && missing.contains("/nowhere/at/all"), "{missing}");
        let other = words(Config::default(), DType::F16, 640, false);
        assert!(other.contains("not for this: not bf16"), "{other}");
        let few = words(Config::default(), DType::BF16, 16, false);
        assert!(few.contains("not for this: fewer than 128 queries"), "{few}");
    }
}
