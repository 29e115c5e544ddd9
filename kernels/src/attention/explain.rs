//! What [`attention`](super::attention()) decides for a call, in words.

use std::fmt::Write;

use rocfire_hal::{Device, View};

use super::attention::choice;
use super::problem::{Prepared, readable};
use super::{AttentionInputs, AttentionParams, aiter, plain};
use crate::Result;
use crate::attached::Attached;

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
    let (info, dtype) = (device.arch().info(), inputs.q.dtype());
    let (batches, heads, kv_heads) = (p.batches, p.heads, p.heads / p.group);
    let (units, causal) = (device.info().compute_units, if p.problem.right == 0 { " causal" } else { "" });
    let mut text = format!(
        "attention {dtype} {batches}x{heads}/{kv_heads}x{}x{}, heads of {}/{}{causal} on {}, {units} compute units\n",
        p.q_rows,
        p.k_rows,
        p.depth,
        p.value_depth,
        device.arch()
    );
    let is_plain = lse.is_none() && plain::is_taken(info, &p, params);
    let call = if readable(&out) { aiter::Call::of(&p, &out, lse) } else { Err("the result lies in no whole vectors") };
    let theirs = match &call {
        Err(against) => format!("not for this: {against}"),
        Ok(call) => match call.kernel(device) {
            Some(kernel) => format!("{}, which goes first: {}", kernel.name(), aiter::WHY),
            None => format!("would go first, but {}", Attached::of(device).aiter(device).absence(device)),
        },
    };
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
        "  ours        tiles of {} queries by {} keys; {product}\n  workgroups  {} = {tiles} x {of_heads} x {batches}; {slices}",
        tile.resident_rows(),
        tile.streamed,
        tiles * of_heads * batches * choice.slices.map_or(1, |slices| slices.count),
    )
    .expect("a string takes text");
    Ok(text)
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
