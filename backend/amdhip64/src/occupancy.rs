//! How many workgroups a compute unit holds, and what HIP says of a kernel.
//!
//! A workgroup's waves share a compute unit's SIMDs, registers and LDS. The bound is the smallest of the three; allocation
//! granules other than those that the code object already counts are not looked at.

use std::ffi::{c_int, c_uint, c_void};

use rocfire_emulator::Kernel;

use crate::call::{Result, export};
use crate::foreign::Out;
use crate::handle::Handle;
use crate::launch::MAX_WORKGROUP_THREADS;
use crate::properties::Facts;
use crate::register;
use crate::runtime::{Runtime, healthy};
use crate::status::Status;

/// `hipFuncAttributes`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FunctionAttributes {
    binary_version: c_int,
    cache_mode: c_int,
    constant_bytes: u64,
    local_bytes: u64,
    max_dynamic_lds_bytes: c_int,
    max_threads: c_int,
    registers: c_int,
    carve_out: c_int,
    ptx_version: c_int,
    lds_bytes: u64,
}

fn attributes(runtime: &Runtime, kernel: &Kernel) -> FunctionAttributes {
    let [major, minor] = Facts::new(runtime).version;
    let version = (10 * major + minor) as c_int;
    let lds_bytes = kernel.lds_bytes();
    FunctionAttributes {
        binary_version: version,
        cache_mode: 0,
        constant_bytes: 0,
        local_bytes: u64::from(kernel.scratch_bytes()),
        max_dynamic_lds_bytes: (runtime.arch.info().lds_bytes - lds_bytes.min(runtime.arch.info().lds_bytes)) as c_int,
        max_threads: kernel.max_workgroup_size().min(MAX_WORKGROUP_THREADS) as c_int,
        registers: (kernel.vgprs() + kernel.agprs()) as c_int,
        carve_out: 0,
        ptx_version: version,
        lds_bytes: u64::from(lds_bytes),
    }
}

/// Workgroups of `threads` threads and `dynamic_lds_bytes` that a compute unit holds.
pub(crate) fn workgroups(facts: &Facts, kernel: &Kernel, threads: u32, dynamic_lds_bytes: u64) -> u64 {
    if threads == 0 || threads > kernel.max_workgroup_size().min(MAX_WORKGROUP_THREADS) {
        return 0;
    }
    let wave = u64::from(kernel.wave_size().max(1));
    let waves = u64::from(threads).div_ceil(wave);
    let by_waves = u64::from(facts.compute_unit_threads / facts.wave_size) / waves;
    let registers = u64::from(kernel.vgprs() + kernel.agprs()).max(1);
    let by_registers = u64::from(facts.registers) / (registers * wave) / waves;
    let lds_bytes = u64::from(kernel.lds_bytes()) + dynamic_lds_bytes;
    let by_lds = u64::from(facts.lds_bytes).checked_div(lds_bytes).unwrap_or(u64::MAX);
    by_waves.min(by_registers).min(by_lds)
}

fn put_workgroups(count: &Out<c_int>, kernel: &Kernel, threads: c_int, dynamic_lds_bytes: u64) -> Result {
    let threads = u32::try_from(threads).ok().filter(|&threads| threads > 0).ok_or(Status::INVALID_VALUE)?;
    count.put(workgroups(&Facts::new(healthy()?), kernel, threads, dynamic_lds_bytes) as c_int)
}

/// The workgroup size that fills a compute unit best, the larger of two that do alike; and the grid that fills the device.
fn put_best(grid: &Out<c_int>, block: &Out<c_int>, kernel: &Kernel, lds_bytes: u64, limit: c_int) -> Result {
    let facts = Facts::new(healthy()?);
    let most = kernel.max_workgroup_size().min(MAX_WORKGROUP_THREADS);
    let most = u32::try_from(limit).ok().filter(|&limit| limit > 0).map_or(most, |limit| limit.min(most));
    let sizes = (1..=most / facts.wave_size).map(|waves| waves * facts.wave_size);
    let filled = |&threads: &u32| workgroups(&facts, kernel, threads, lds_bytes) * u64::from(threads);
    let best = sizes.max_by_key(filled).unwrap_or(most);
    block.put(best as c_int)?;
    grid.put((workgroups(&facts, kernel, best, lds_bytes) * u64::from(facts.compute_units)) as c_int)
}

fn of_symbol(function: *const c_void) -> Result<Kernel> {
    register::kernel(healthy()?, function.addr())
}

fn of_handle(function: Handle) -> Result<Kernel> {
    Ok(healthy()?.function(function)?.kernel.clone())
}

export! {
    /// `hipFuncGetAttributes`
    fn hipFuncGetAttributes(out: Out<FunctionAttributes>, function: *const c_void) {
        out.put(attributes(healthy()?, &of_symbol(function)?))
    }

    /// `hipFuncGetAttribute`
    fn hipFuncGetAttribute(value: Out<c_int>, attribute: c_int, function: Handle) {
        let known = attributes(healthy()?, &of_handle(function)?);
        value.put(match attribute {
            0 => known.max_threads,
            1 => known.lds_bytes as c_int,
            2 => known.constant_bytes as c_int,
            3 => known.local_bytes as c_int,
            4 => known.registers,
            5 => known.ptx_version,
            6 => known.binary_version,
            7 => known.cache_mode,
            8 => known.max_dynamic_lds_bytes,
            9 => known.carve_out,
            _ => return Err(Status::INVALID_VALUE.into()),
        })
    }

    /// `hipOccupancyMaxActiveBlocksPerMultiprocessor`
    fn hipOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<c_int>, function: *const c_void, threads: c_int, lds_bytes: u64,
    ) {
        put_workgroups(&count, &of_symbol(function)?, threads, lds_bytes)
    }

    /// `hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags`
    fn hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<c_int>, function: *const c_void, threads: c_int, lds_bytes: u64, _flags: c_uint,
    ) {
        put_workgroups(&count, &of_symbol(function)?, threads, lds_bytes)
    }

    /// `hipOccupancyMaxPotentialBlockSize`
    fn hipOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>, block: Out<c_int>, function: *const c_void, lds_bytes: u64, limit: c_int,
    ) {
        put_best(&grid, &block, &of_symbol(function)?, lds_bytes, limit)
    }

    /// `hipModuleOccupancyMaxActiveBlocksPerMultiprocessor`
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
        count: Out<c_int>, function: Handle, threads: c_int, lds_bytes: u64,
    ) {
        put_workgroups(&count, &of_handle(function)?, threads, lds_bytes)
    }

    /// `hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags`
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        count: Out<c_int>, function: Handle, threads: c_int, lds_bytes: u64, _flags: c_uint,
    ) {
        put_workgroups(&count, &of_handle(function)?, threads, lds_bytes)
    }

    /// `hipModuleOccupancyMaxPotentialBlockSize`
    fn hipModuleOccupancyMaxPotentialBlockSize(
        grid: Out<c_int>, block: Out<c_int>, function: Handle, lds_bytes: u64, limit: c_int,
    ) {
        put_best(&grid, &block, &of_handle(function)?, lds_bytes, limit)
    }

    /// `hipModuleOccupancyMaxPotentialBlockSizeWithFlags`
    fn hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<c_int>, block: Out<c_int>, function: Handle, lds_bytes: u64, limit: c_int, _flags: c_uint,
    ) {
        put_best(&grid, &block, &of_handle(function)?, lds_bytes, limit)
    }
}
