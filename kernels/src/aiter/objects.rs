//! The code objects that are known to be right: `objects.csv`.

use std::sync::LazyLock;

use rocfire_arch::Arch;
use rocfire_hal::Device;

use super::products::ProductTile;

/// The first line of the table.
const HEADER: &str = "arch,units,role,object,kernel,hash";
const TABLE: &str = include_str!("objects.csv");

/// What a kernel is launched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Attention of bf16 by heads of 128, where queries see all keys.
    Attention,
    /// The same where the last query sees all keys, and each before it one less.
    AttentionCausal,
    /// Gradients of [`Role::Attention`].
    Gradients,
    /// Gradients of [`Role::AttentionCausal`].
    GradientsCausal,
    /// Attention of one query of each sequence over a cache on pages: bf16, heads of 128, eight of queries for each of keys.
    PagedDecode,
    /// Splits of attention of one query of each sequence over a cache of latents: bf16, 16 heads, 576 channels of which 512 are values.
    LatentDecodeFew,
    /// The same of 128 heads.
    LatentDecodeMany,
    /// A product of MXFP4 by MXFP4 laid out, by workgroups of this tile.
    Product(ProductTile),
}

impl Role {
    /// By its name in the table.
    fn parse(name: &str) -> Option<Role> {
        Some(match name {
            "attention" => Role::Attention,
            "attention causal" => Role::AttentionCausal,
            "gradients" => Role::Gradients,
            "gradients causal" => Role::GradientsCausal,
            "paged decode" => Role::PagedDecode,
            "latent decode 16" => Role::LatentDecodeFew,
            "latent decode 128" => Role::LatentDecodeMany,
            product => Role::Product(ProductTile::parse(product.strip_prefix("product MXFP4 ")?)?),
        })
    }
}

/// A code object of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// The architecture that it is for; the name of the folder that it is in.
    pub arch: Arch,
    /// Compute units of the cards that it is for; empty for all.
    pub units: Vec<u32>,
    pub role: Role,
    /// Its path in the architecture's folder.
    pub path: String,
    pub kernel: String,
    /// BLAKE3 of the file.
    pub hash: blake3::Hash,
}

impl Object {
    /// Whether it is for a card.
    pub fn is_for(&self, arch: Arch, units: u32) -> bool {
        self.arch == arch && (self.units.is_empty() || self.units.contains(&units))
    }

    /// Its path in the folder of all architectures.
    pub fn relative(&self) -> String {
        format!("{}/{}", self.arch, self.path)
    }

    fn parse(line: &str) -> Option<Object> {
        let [arch, units, role, path, kernel, hash] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        Some(Object {
            arch: Arch::parse(arch).ok()?,
            units: units.split_whitespace().map(|count| count.parse().ok()).collect::<Option<_>>()?,
            role: Role::parse(role)?,
            path: path.to_owned(),
            kernel: kernel.to_owned(),
            hash: blake3::Hash::from_hex(hash).ok()?,
        })
    }
}

/// All of them, in the table's order.
pub(crate) fn known() -> &'static [Object] {
    static KNOWN: LazyLock<Vec<Object>> = LazyLock::new(|| {
        let mut lines = TABLE.lines();
        assert_eq!(lines.next(), Some(HEADER), "the table is shipped with the code");
        lines.map(|line| Object::parse(line).expect("the table is shipped with the code")).collect()
    });
    &KNOWN
}

/// Those for a device's card.
pub(crate) fn of(device: &Device) -> impl Iterator<Item = &'static Object> {
    let (arch, units) = (device.arch(), device.info().compute_units);
    known().iter().filter(move |object| object.is_for(arch, units))
}

/// The tiles of products that there are kernels for on a device's card, in the table's order.
pub(crate) fn product_tiles(device: &Device) -> impl Iterator<Item = ProductTile> {
    of(device).filter_map(|object| match object.role {
        Role::Product(tile) => Some(tile),
        _ => None,
    })
}
