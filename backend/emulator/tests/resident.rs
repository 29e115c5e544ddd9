//! Code that the test puts into memory as a foreign loader does, run by the address of its descriptor.

mod common;

use std::ptr::NonNull;

use common::Args;
use object::elf::{PT_LOAD, SHT_DYNSYM};
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, Sym as _};
use rocfire_arch::Arch;
use rocfire_emulator::{Dispatch, Error, FaultKind, Gpu, Module, Options};

/// Where memory is shared, and where in it the image begins.
const MEMORY: u64 = 0x5000_0000_0000;
const IMAGE: u64 = 3 * 4096;
const WAVES: u32 = 64;
const N: usize = 300;

/// A device, with bytes of the test's at [`MEMORY`].
struct Placed {
    gpu: Gpu,
    memory: Vec<u64>,
    object: Vec<u8>,
}

type Elf<'a> = ElfFile64<'a, LittleEndian>;

impl Placed {
    /// The kernels of `basics.hip`, placed.
    fn new() -> Option<Placed> {
        let object = common::compile("basics")?;
        let gpu = Gpu::new(Arch::parse("gfx942").unwrap(), Options::default()).unwrap();
        let memory = vec![0u64; 1 << 16];
        let mut placed = Placed { gpu, memory, object };
        placed.put(IMAGE);
        let host = NonNull::new(placed.memory.as_mut_ptr()).unwrap().cast();
        let bytes = 8 * placed.memory.len() as u64;
        // SAFETY: the memory is as long as the device, and no test writes it while a kernel runs.
        assert_eq!(unsafe { placed.gpu.share_at(MEMORY, host, bytes) }.unwrap(), MEMORY);
        Some(placed)
    }

    fn bytes(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.memory)
    }

    /// Copies the segments to where they belong.
    fn put(&mut self, image: u64) {
        let object = self.object.clone();
        let elf = Elf::parse(&*object).unwrap();
        let header = elf.elf_header();
        for segment in header.program_headers(LittleEndian, &*object).unwrap() {
            if segment.p_type(LittleEndian) == PT_LOAD {
                let at = (image + segment.p_vaddr(LittleEndian)) as usize;
                let data = segment.data(LittleEndian, &*object).unwrap();
                self.bytes()[at..at + data.len()].copy_from_slice(data);
            }
        }
    }

    /// Address and size of a symbol, from the image's base.
    fn symbol(&self, name: &str) -> (u64, u64) {
        let elf = Elf::parse(&*self.object).unwrap();
        let table = elf.elf_section_table().symbols(LittleEndian, &*self.object, SHT_DYNSYM).unwrap();
        let symbol = table.iter().find(|symbol| table.symbol_name(LittleEndian, symbol).unwrap() == name.as_bytes());
        let symbol = symbol.unwrap_or_else(|| panic!("no {name}"));
        (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian))
    }

    fn upload<T: bytemuck::NoUninit>(&self, data: &[T]) -> u64 {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let address = self.gpu.allocate(bytes.len() as u64).unwrap();
        self.gpu.write(address, bytes).unwrap();
        address
    }

    /// A dispatch with its arguments and packet in memory, the hidden arguments as the runtimes lay them out.
    fn dispatch(&self, args: Args, groups: u32, block: u32) -> Dispatch {
        let hidden = args.bytes().len().next_multiple_of(8);
        let mut kernarg = args.bytes().to_vec();
        kernarg.resize(hidden + 256, 0);
        kernarg[hidden..hidden + 4].copy_from_slice(&groups.to_le_bytes());
        kernarg[hidden + 12..hidden + 14].copy_from_slice(&(block as u16).to_le_bytes());
        let mut packet = [0u8; 64];
        packet[4..6].copy_from_slice(&(block as u16).to_le_bytes());
        packet[12..16].copy_from_slice(&(groups * block).to_le_bytes());
        let (kernarg_ptr, packet_ptr) = (self.upload(&kernarg), self.upload(&packet));
        let (grid_items, block) = ([groups * block, 1, 1], [block, 1, 1]);
        Dispatch { grid_items, block, lds_bytes: 0, scratch_bytes: 0, kernarg_ptr, packet_ptr }
    }

    /// Runs `vector_add` by a descriptor, and compares.
    fn adds(&self, descriptor: u64) {
        let module = self.gpu.resident(descriptor).unwrap();
        let kernel = module.kernel_at(descriptor).unwrap();
        let a: Vec<f32> = (0..N).map(|i| (i as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..N).map(|i| (i as f32 * 0.11).cos()).collect();
        let (pa, pb, pc) = (self.upload(&a), self.upload(&b), self.upload(&[0f32; N]));
        let dispatch = self.dispatch(Args::new().with(pa).with(pb).with(pc).with(N as i32), 2, 256);
        let counters = self.gpu.dispatch(&kernel, &dispatch).unwrap();
        assert_eq!(counters.waves, u64::from(2 * 256 / WAVES));
        let mut c = vec![0f32; N];
        self.gpu.read(pc, bytemuck::cast_slice_mut(&mut c)).unwrap();
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(c, expected);
    }
}

#[test]
fn an_image_is_found_around_a_descriptor_and_its_kernels_run() {
    let Some(mut placed) = Placed::new() else { return };
    let descriptor = MEMORY + IMAGE + placed.symbol("vector_add.kd").0;
    placed.adds(descriptor);
    let module = placed.gpu.resident(descriptor).unwrap();
    let own = placed.gpu.load(&placed.object.clone()).unwrap();
    assert_eq!(module.kernel_names().collect::<Vec<_>>(), own.kernel_names().collect::<Vec<_>>());
    let facts = |module: &std::sync::Arc<Module>| {
        let kernel = module.kernel("block_sum").unwrap();
        (kernel.lds_bytes(), kernel.vgprs(), kernel.kernarg_bytes(), kernel.max_workgroup_size(), kernel.wave_size())
    };
    assert_eq!(facts(&module), facts(&own));
    // An older image whose header is still there, further down, is not taken for it.
    placed.put(IMAGE + 0x2_0000);
    placed.adds(descriptor + 0x2_0000);
}

#[test]
fn a_kernel_without_an_image_is_its_descriptor_and_what_follows() {
    let Some(mut placed) = Placed::new() else { return };
    let (descriptor, function) = (placed.symbol("vector_add.kd"), placed.symbol("vector_add"));
    let from = |(start, bytes): (u64, u64)| (IMAGE + start) as usize..(IMAGE + start + bytes) as usize;
    let [mut header, code] = [descriptor, function].map(|place| placed.bytes()[from(place)].to_vec());
    header[16..24].copy_from_slice(&256i64.to_le_bytes());
    let bare = 0x6_0000;
    placed.bytes()[bare..bare + 64].copy_from_slice(&header);
    placed.bytes()[bare + 256..bare + 256 + code.len()].copy_from_slice(&code);
    placed.adds(MEMORY + bare as u64);
}

#[test]
fn code_that_was_written_over_is_seen() {
    let Some(mut placed) = Placed::new() else { return };
    let descriptor = MEMORY + IMAGE + placed.symbol("vector_add.kd").0;
    let module = placed.gpu.resident(descriptor).unwrap();
    assert!(module.is_current());
    let at = (IMAGE + placed.symbol("vector_add").0) as usize;
    placed.bytes()[at] ^= 1;
    assert!(!module.is_current());
    placed.gpu.free(MEMORY).unwrap();
    assert!(!module.is_current());
    assert!(matches!(placed.gpu.resident(descriptor), Err(Error::BadAddress { .. })));
}

#[test]
fn what_a_packet_cannot_ask_for_is_refused() {
    let Some(placed) = Placed::new() else { return };
    let descriptor = MEMORY + IMAGE + placed.symbol("block_sum.kd").0;
    let kernel = placed.gpu.resident(descriptor).unwrap().kernel_at(descriptor).unwrap();
    let (x, sums) = (placed.upload(&[1f32; 256]), placed.upload(&[0f32; 1]));
    let good = placed.dispatch(Args::new().with(x).with(sums).with(256), 1, 256);
    let good = Dispatch { lds_bytes: kernel.lds_bytes(), ..good };
    placed.gpu.dispatch(&kernel, &good).unwrap();
    let mut sum = [0f32];
    placed.gpu.read(sums, bytemuck::bytes_of_mut(&mut sum)).unwrap();
    assert_eq!(sum, [256.0]);
    for bad in [
        Dispatch { lds_bytes: kernel.lds_bytes() - 1, ..good },
        Dispatch { grid_items: [255, 1, 1], ..good },
        Dispatch { block: [0, 1, 1], ..good },
        Dispatch { block: [2048, 1, 1], grid_items: [2048, 1, 1], ..good },
    ] {
        assert!(matches!(placed.gpu.dispatch(&kernel, &bad), Err(Error::BadLaunch { .. })), "{bad:?}");
    }
    let nowhere = Dispatch { kernarg_ptr: 4096, ..good };
    match placed.gpu.dispatch(&kernel, &nowhere) {
        Err(Error::Fault(fault)) => assert!(matches!(fault.kind, FaultKind::OutOfBounds(_)), "{fault}"),
        other => panic!("{other:?}"),
    }
}
