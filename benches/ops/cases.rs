//! The cases of the tests, timed as they are: small, so what a launch costs has its part in most of them.

use std::cell::RefCell;
use std::rc::Rc;

use rocfire_hal::Device;
use rocfire_tests::Case;

use crate::op::{Error, Op};

/// A case of the tests; its own oracle has checked it by then.
pub fn op(device: &Device, case: &Case) -> Result<Op, Error> {
    case.check(device).map_err(|error| error.to_string())?;
    let run = Rc::new(RefCell::new(case.prepare(device).map_err(|error| error.to_string())?));
    let launch = move |_| -> Result<(), Error> { Ok(run.borrow_mut().launch().map_err(|error| error.to_string())?) };
    Ok(Op {
        name: case.name(),
        shape: String::new(),
        bytes: case.cost.bytes,
        flops: case.cost.flops,
        launch: Box::new(launch),
        check: Box::new(|| Ok(())),
    })
}
