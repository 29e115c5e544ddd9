use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use rocfire_arch::{Arch, DEFAULT_EMULATED};

use super::*;
use crate::command::StreamName;
use crate::driver::{DeviceInfo, DriverEvent, DriverModule};
use crate::noop::Noop;

/// A driver with little memory that remembers what it was told.
struct Books {
    noop: Noop,
    capacity_bytes: u64,
    segments: Mutex<BTreeMap<u64, u64>>,
    live: Mutex<BTreeMap<u64, (u64, u64)>>,
}

impl Books {
    fn new(capacity_bytes: u64) -> Arc<Books> {
        let noop = Noop::new(Arch::parse(DEFAULT_EMULATED).unwrap());
        Arc::new(Books { noop, capacity_bytes, segments: Mutex::default(), live: Mutex::default() })
    }

    /// Also after a failed assertion: the pool is dropped while the test unwinds, and a second panic would end all tests.
    fn segments(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<u64, (u64, u64)>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken_bytes(&self) -> u64 {
        self.segments().values().sum()
    }
}

const RED_ZONE_BYTES: u64 = 16;

impl Driver for Books {
    fn info(&self) -> &DeviceInfo {
        self.noop.info()
    }

    fn free_memory_bytes(&self) -> Option<u64> {
        Some(self.capacity_bytes - self.taken_bytes())
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        if bytes > self.capacity_bytes - self.taken_bytes() {
            return Err(Error::OutOfMemory {
                requested_bytes: bytes,
                live_bytes: 0,
                reserved_bytes: 0,
                limit_bytes: 0,
            });
        }
        let address = self.noop.allocate(bytes)?;
        self.segments().insert(address, bytes);
        Ok(address)
    }

    unsafe fn free(&self, address: u64) -> Result<()> {
        self.segments().remove(&address).expect("a segment is freed once, by its address");
        Ok(())
    }

    fn mark(&self, address: u64, block_bytes: u64, live: Live) {
        let mut marks = self.live();
        match live {
            Live::Requested(requested) => {
                assert!(requested + RED_ZONE_BYTES <= block_bytes);
                let segments = self.segments();
                let (first, bytes) = segments.range(..=address).next_back().expect("a block lies in a segment");
                assert!(address + block_bytes <= first + bytes, "a block ends in its segment");
                let before = marks.range(..address).next_back();
                assert!(before.is_none_or(|(first, (bytes, _))| first + bytes <= address), "blocks do not overlap");
                let after = marks.range(address..).next();
                assert!(after.is_none_or(|(first, _)| address + block_bytes <= *first), "blocks do not overlap");
                marks.insert(address, (block_bytes, requested));
            }
            Live::Free => {
                marks.remove(&address);
            }
        }
    }

    fn red_zone_bytes(&self) -> u64 {
        RED_ZONE_BYTES
    }

    unsafe fn upload(&self, _stream: StreamName, _target: u64, _source: &[u8]) -> Result<()> {
        Ok(())
    }

    unsafe fn download(&self, _target: &mut [u8], _source: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn copy(&self, _target: u64, _source: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(&self, _address: u64, _value: u8, _bytes: u64) -> Result<()> {
        Ok(())
    }

    fn load(&self, code: &[u8]) -> Result<Arc<dyn DriverModule>> {
        self.noop.load(code)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn record_event(&self, stream: StreamName, _: Option<Box<dyn DriverEvent>>) -> Result<Box<dyn DriverEvent>> {
        self.noop.record_event(stream, None)
    }
}

/// Every block in use, and each segment is covered by its blocks, none of two neighbours free.
fn check(pool: &Pool, books: &Books, live: &[Block]) {
    let marks = books.live();
    assert_eq!(marks.len(), live.len());
    for block in live {
        assert_eq!(marks[&block.address()].1, block.requested_bytes);
        assert_eq!(block.address() % UNIT_BYTES, 0);
    }
    let stats = pool.stats();
    assert_eq!(stats.live_bytes, live.iter().map(|block| block.requested_bytes).sum::<u64>());
    assert_eq!(stats.reserved_bytes, books.taken_bytes());
    assert!(stats.peak_bytes >= stats.live_bytes);
    assert_eq!(stats.live_blocks, live.len() as u64);
    assert_eq!(stats.padding_bytes, marks.values().map(|(block, requested)| block - requested).sum::<u64>());
    let segments = books.segments();
    for carved in pool.segments() {
        let count = segments.values().filter(|&&bytes| bytes == carved.segment_bytes).count() as u64;
        assert_eq!(carved.segments, count, "of {} bytes", carved.segment_bytes);
        assert!(carved.peak_segments >= count);
    }
    let covered: u64 = pool.nodes.iter().map(|node| node.bytes).sum();
    assert_eq!(covered, stats.reserved_bytes);
    for node in pool.nodes.iter().filter(|node| node.bytes > 0 && node.after != NIL) {
        let after = &pool.nodes[node.after as usize];
        assert_eq!(node.address + node.bytes, after.address);
        assert!(!(node.free && after.free), "free neighbours are merged");
    }
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![1..600_u64, 1..(3_u64 << 20), (1_u64 << 20)..(30_u64 << 20)]
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_neighbours_merge(keeps in any::<bool>(), steps in prop::collection::vec((sizes(), any::<bool>(), any::<prop::sample::Index>()), 1..120)) {
        let books = Books::new(256 << 20);
        let pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
        let mut pool = if keeps { pool.keeping_blocks() } else { pool };
        let mut live: Vec<Block> = Vec::new();
        for (bytes, give_back, which) in steps {
            if give_back && !live.is_empty() {
                pool.free(live.swap_remove(which.index(live.len())));
            } else {
                match pool.allocate(bytes, true).map(|block| block.expect("nothing is recorded")) {
                    Ok(block) => live.push(block),
                    Err(error) => {
                        let told = matches!(error, Error::OutOfMemory { requested_bytes, .. } if requested_bytes == bytes);
                        prop_assert!(told, "{}", error);
                    }
                }
            }
            check(&pool, &books, &live);
        }
        live.drain(..).for_each(|block| pool.free(block));
        check(&pool, &books, &live);
        pool.trim().unwrap();
        prop_assert_eq!(books.taken_bytes(), 0);
        prop_assert_eq!(pool.stats().reserved_bytes, 0);
    }

    #[test]
    fn classes_grow_with_sizes(a in 1..(1_u64 << 40), b in 1..(1_u64 << 40)) {
        let (small, large) = (a.min(b) * UNIT_BYTES, a.max(b) * UNIT_BYTES);
        prop_assert!(class_of(small) <= class_of(large));
        prop_assert!(class_of(large) < CLASSES);
        // A block of the next class always fits.
        if class_of(large) > class_of(small) {
            prop_assert!(large >= small);
        }
    }
}

#[test]
fn a_block_that_comes_back_is_handed_out_again() {
    let books = Books::new(64 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
    let first = pool.allocate(1000, true).unwrap().unwrap();
    let address = first.address();
    pool.free(first);
    let again = pool.allocate(900, true).unwrap().unwrap();
    assert_eq!(again.address(), address);
    assert_eq!(
        pool.stats(),
        MemoryStats {
            live_bytes: 900,
            reserved_bytes: SMALL_SEGMENT_BYTES,
            peak_bytes: 1000,
            blocks: 2,
            live_blocks: 1,
            padding_bytes: 124
        }
    );
}

#[test]
fn a_step_gets_the_addresses_of_one_before_whatever_order_blocks_come_back_in() {
    const WEIGHTS: usize = 20;
    let books = Books::new(256 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX).keeping_blocks();
    let size = |at: usize| [700, 3000, 5000, 40_000, 300_000][at * 7919 % 5] * (1 + at as u64 % 3);
    let mut weights: Vec<Block> = (0..WEIGHTS).map(|at| pool.allocate(size(at), true).unwrap().unwrap()).collect();
    let mut steps: Vec<Vec<u64>> = Vec::new();
    for step in 0..12 {
        let mut passing: Vec<Block> = (0..60).map(|at| pool.allocate(size(3 * at), true).unwrap().unwrap()).collect();
        // New weights are there before the old ones go.
        let new: Vec<Block> = (0..WEIGHTS).map(|at| pool.allocate(size(at), true).unwrap().unwrap()).collect();
        steps.push(passing.iter().chain(&new).map(Block::address).collect());
        passing.rotate_left(step * 7 % 60);
        passing.into_iter().for_each(|block| pool.free(block));
        std::mem::replace(&mut weights, new).into_iter().for_each(|block| pool.free(block));
        check(&pool, &books, &weights);
    }
    assert!((6..12).all(|step| steps[step] == steps[step - 2]), "two steps take turns");
}

#[test]
fn what_stays_has_segments_of_its_own() {
    let books = Books::new(256 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
    let passing: Vec<Block> = (0..4).map(|_| pool.allocate(400 << 10, true).unwrap().unwrap()).collect();
    pool.set_persistent(true);
    let weights: Vec<Block> = (0..4).map(|_| pool.allocate(300 << 10, true).unwrap().unwrap()).collect();
    // Another thread's requests are not meant.
    let other =
        std::thread::scope(|scope| scope.spawn(|| pool.allocate(100 << 10, true).unwrap().unwrap()).join().unwrap());
    pool.set_persistent(false);
    let segment = |block: &Block| {
        let segments = books.segments();
        *segments.range(..=block.address()).next_back().expect("a block lies in a segment").0
    };
    let own = segment(&weights[0]);
    assert!(weights.iter().all(|block| segment(block) == own));
    assert!(passing.iter().chain([&other]).all(|block| segment(block) != own));
    assert_eq!(pool.segments()[0].segments, 2);
    // What came and went leaves nothing behind.
    passing.into_iter().chain([other]).for_each(|block| pool.free(block));
    pool.trim().unwrap();
    assert_eq!(pool.stats().reserved_bytes, SMALL_SEGMENT_BYTES);
    assert_eq!((pool.segments()[0].segments, pool.segments()[0].peak_segments), (1, 2));
    weights.into_iter().for_each(|block| pool.free(block));
    pool.trim().unwrap();
    assert_eq!(books.taken_bytes(), 0);
}

#[test]
fn without_room_either_kind_is_served_from_the_other_s_segments() {
    let books = Books::new(SMALL_SEGMENT_BYTES);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
    let passing = pool.allocate(1000, true).unwrap().unwrap();
    pool.set_persistent(true);
    let weight = pool.allocate(1000, true).unwrap().unwrap();
    check(&pool, &books, &[passing, weight]);
}

#[test]
fn out_of_memory_trims_tries_again_and_leaves_the_pool_usable() {
    let books = Books::new(40 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
    let cached = pool.allocate(30 << 20, true).unwrap().unwrap();
    pool.free(cached);
    // The 30 MiB that are cached are too small for this, and have to go back first.
    let large = pool.allocate(38 << 20, true).unwrap().unwrap();
    assert!(pool.stats().reserved_bytes <= 40 << 20);
    let error = pool.allocate(10 << 20, true).unwrap_err();
    let message = error.to_string();
    assert!(
        matches!(error, Error::OutOfMemory { requested_bytes: 0xa0_0000, live_bytes: 0x260_0000, .. }),
        "{message}"
    );
    pool.free(large);
    let after = pool.allocate(10 << 20, true).unwrap().unwrap();
    check(&pool, &books, std::slice::from_ref(&after));
}

#[test]
fn a_segment_of_the_exact_size_is_tried_where_a_comfortable_one_has_no_room() {
    let books = Books::new(3 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, u64::MAX);
    // Blocks of this size come from segments of 20 MiB, of which there is no room for one.
    assert!(pool.allocate(2 << 20, true).is_ok());
}

#[test]
fn the_cap_counts_what_is_reserved() {
    let books = Books::new(1 << 30);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, 8 << 20);
    let error = pool.allocate(9 << 20, true).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { limit_bytes: 0x80_0000, .. }));
    assert!(pool.allocate(7 << 20, true).is_ok());
}

#[test]
fn absurd_sizes_are_out_of_memory() {
    let books = Books::new(1 << 30);
    let mut pool = Pool::new(books as Arc<dyn Driver>, u64::MAX);
    for bytes in [u64::MAX, u64::MAX - 300, 1 << 63] {
        assert!(matches!(pool.allocate(bytes, true), Err(Error::OutOfMemory { .. })), "{bytes}");
    }
}

#[test]
fn memory_used_while_a_graph_is_recorded_stays_with_it() {
    let books = Books::new(64 << 20);
    let mut pool = Pool::new(Arc::clone(&books) as Arc<dyn Driver>, 64 << 20);
    let old = pool.allocate(1000, true).unwrap().unwrap();
    let untouched = pool.allocate(2000, true).unwrap().unwrap();
    pool.begin_capture();
    assert!(pool.allocate(30 << 20, true).unwrap().is_none(), "the driver is not asked");
    let first = pool.allocate(3000, true).unwrap().unwrap();
    let first_address = first.address();
    pool.free(first);
    let second = pool.allocate(3000, true).unwrap().unwrap();
    assert_eq!(second.address(), first_address, "within the recording it is handed out again");
    let alive = pool.allocate(4000, true).unwrap().unwrap();
    let (old_address, alive_address) = (old.address(), alive.address());
    pool.free(second);
    pool.free(old);
    let kept = pool.end_capture();
    let holds = |address: u64| kept.iter().any(|b| b.address() <= address && address < b.address() + b.requested_bytes);
    assert!(holds(first_address) && holds(old_address));
    assert!(!holds(alive_address) && !holds(untouched.address()));
    // What is handed out now is none of it.
    let later: Vec<Block> = (0..100).map(|_| pool.allocate(3000, true).unwrap().unwrap()).collect();
    assert!(later.iter().all(|block| !holds(block.address())));
    pool.free(alive);
    pool.free(untouched);
    later.into_iter().chain(kept).for_each(|block| pool.free(block));
    assert_eq!(pool.stats().live_bytes, 0);
    pool.trim().unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
}
