//! `NT_AMDGPU_METADATA`: the MessagePack note in which a compiler describes its kernels.
//!
//! Only what a launch needs is kept. Names of fields and kinds of arguments are LLVM's ("AMDGPU Code Object V5 Metadata").

use rmpv::Value;

/// What a hidden argument holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    /// Workgroups in dimension 0, 1 or 2: u32.
    BlockCount(usize),
    /// Work-items of a workgroup in a dimension: u16.
    GroupSize(usize),
    /// Work-items of the partial workgroup in a dimension: u16. Grids are whole workgroups here.
    Remainder(usize),
    /// Number of dimensions of the grid: u16.
    GridDims,
    /// LDS bytes that the launch asked for: u32.
    DynamicLdsBytes,
    /// High half of the private aperture: u32.
    PrivateBase,
    /// High half of the LDS aperture: u32.
    SharedBase,
    /// A global offset, or a pointer to something the emulator does not have: zero.
    Zero,
}

/// A hidden argument and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenArg {
    pub(crate) what: Hidden,
    pub(crate) offset_bytes: usize,
    pub(crate) bytes: usize,
}

/// One kernel of a code object.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelMetadata {
    pub(crate) name: String,
    /// Symbol of the descriptor.
    pub(crate) symbol: String,
    pub(crate) kernarg_bytes: u32,
    pub(crate) explicit_kernarg_bytes: u32,
    /// Offset and size of each explicit argument, bytes, in the order of the source.
    pub(crate) explicit: Vec<(u32, u32)>,
    pub(crate) max_workgroup_size: u32,
    pub(crate) wave_size: u32,
    pub(crate) sgprs: u32,
    pub(crate) hidden: Vec<HiddenArg>,
}

/// The kernels that the note describes; the text says what is wrong with it.
pub(crate) fn parse(note: &[u8]) -> Result<Vec<KernelMetadata>, String> {
    let mut bytes = note;
    let root = rmpv::decode::read_value(&mut bytes).map_err(|error| format!("metadata is not MessagePack: {error}"))?;
    let kernels = get(&root, "amdhsa.kernels").and_then(Value::as_array).ok_or("metadata has no amdhsa.kernels")?;
    kernels.iter().map(kernel).collect()
}

fn get<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}

fn number(map: &Value, key: &str) -> Option<u32> {
    get(map, key)?.as_u64().and_then(|value| u32::try_from(value).ok())
}

fn kernel(map: &Value) -> Result<KernelMetadata, String> {
    let text = |key: &str| get(map, key).and_then(Value::as_str).map(str::to_owned);
    let name = text(".name").ok_or("a kernel has no .name")?;
    let needed = |key: &str| number(map, key).ok_or_else(|| format!("kernel {name} has no {key}"));
    let mut kernel = KernelMetadata {
        symbol: text(".symbol").ok_or_else(|| format!("kernel {name} has no .symbol"))?,
        kernarg_bytes: needed(".kernarg_segment_size")?,
        explicit_kernarg_bytes: 0,
        explicit: Vec::new(),
        max_workgroup_size: needed(".max_flat_workgroup_size")?,
        wave_size: needed(".wavefront_size")?,
        sgprs: needed(".sgpr_count")?,
        hidden: Vec::new(),
        name: name.clone(),
    };
    for arg in get(map, ".args").and_then(Value::as_array).map_or(&[][..], Vec::as_slice) {
        let place = (number(arg, ".offset"), number(arg, ".size"), get(arg, ".value_kind").and_then(Value::as_str));
        let (Some(offset), Some(bytes), Some(kind)) = place else {
            return Err(format!("kernel {name} has an argument without offset, size or kind"));
        };
        match kind.strip_prefix("hidden_") {
            Some(kind) => {
                let (offset_bytes, bytes) = (offset as usize, bytes as usize);
                kernel.hidden.push(HiddenArg { what: hidden(kind), offset_bytes, bytes });
            }
            None => {
                kernel.explicit.push((offset, bytes));
                kernel.explicit_kernarg_bytes = kernel.explicit_kernarg_bytes.max(offset.saturating_add(bytes));
            }
        }
    }
    Ok(kernel)
}

fn hidden(kind: &str) -> Hidden {
    match kind {
        "block_count_x" => Hidden::BlockCount(0),
        "block_count_y" => Hidden::BlockCount(1),
        "block_count_z" => Hidden::BlockCount(2),
        "group_size_x" => Hidden::GroupSize(0),
        "group_size_y" => Hidden::GroupSize(1),
        "group_size_z" => Hidden::GroupSize(2),
        "remainder_x" => Hidden::Remainder(0),
        "remainder_y" => Hidden::Remainder(1),
        "remainder_z" => Hidden::Remainder(2),
        "grid_dims" => Hidden::GridDims,
        "dynamic_lds_size" => Hidden::DynamicLdsBytes,
        "private_base" => Hidden::PrivateBase,
        "shared_base" => Hidden::SharedBase,
        // Global offsets are zero in HIP; host call and printf buffers, queues and heaps do not exist here.
        _ => Hidden::Zero,
    }
}
