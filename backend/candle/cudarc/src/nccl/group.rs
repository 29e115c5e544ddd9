//! Groups: collective calls that begin together.

use super::result::{NcclError, NcclStatus, group_end, group_start};
use super::{Comm, NcclType, ReduceOp};
use crate::driver::{CudaView, CudaViewMut};

/// A group of one rank's calls. They begin when this is dropped, or if the thread is in another group around it, when that ends.
/// What fails then is returned by the next call on the device that can return an error.
#[derive(Debug)]
pub struct Group<'a> {
    comm: &'a Comm,
}

impl Comm {
    /// Begins a group.
    pub fn group(&self) -> Group<'_> {
        group_start().expect("a group can always begin");
        Group { comm: self }
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if let Err(NcclError(error)) = group_end() {
            self.comm.context().record_err::<()>(Err(error));
        }
    }
}

impl<'g> Group<'g> {
    /// The rank.
    pub fn comm(&self) -> &'g Comm {
        self.comm
    }

    /// As [`Comm::send`].
    ///
    /// # Errors
    /// As there. So do all calls below.
    pub fn send<'s: 'g, T: NcclType>(&mut self, data: CudaView<'s, T>, peer: i32) -> Result<(), NcclError> {
        self.comm.send(&data, peer)
    }

    /// As [`Comm::recv`].
    pub fn recv<'r: 'g, T: NcclType>(
        &mut self,
        mut buff: CudaViewMut<'r, T>,
        peer: i32,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.recv(&mut buff, peer)
    }

    /// As [`Comm::broadcast`].
    pub fn broadcast<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: Option<CudaView<'s, T>>,
        mut recvbuff: CudaViewMut<'r, T>,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.broadcast(sendbuff.as_ref(), &mut recvbuff, root)
    }

    /// As [`Comm::broadcast_in_place`].
    pub fn broadcast_in_place<'r: 'g, T: NcclType>(
        &mut self,
        mut recvbuff: CudaViewMut<'r, T>,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.broadcast_in_place(&mut recvbuff, root)
    }

    /// As [`Comm::all_gather`].
    pub fn all_gather<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: CudaView<'s, T>,
        mut recvbuff: CudaViewMut<'r, T>,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.all_gather(&sendbuff, &mut recvbuff)
    }

    /// As [`Comm::all_reduce`].
    pub fn all_reduce<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: CudaView<'s, T>,
        mut recvbuff: CudaViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.all_reduce(&sendbuff, &mut recvbuff, reduce_op)
    }

    /// As [`Comm::all_reduce_in_place`].
    pub fn all_reduce_in_place<'r: 'g, T: NcclType>(
        &mut self,
        mut buff: CudaViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.all_reduce_in_place(&mut buff, reduce_op)
    }

    /// As [`Comm::reduce`].
    pub fn reduce<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: CudaView<'s, T>,
        mut recvbuff: Option<CudaViewMut<'r, T>>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.reduce(&sendbuff, recvbuff.as_mut(), reduce_op, root)
    }

    /// As [`Comm::reduce_in_place`].
    pub fn reduce_in_place<'r: 'g, T: NcclType>(
        &mut self,
        mut recvbuff: CudaViewMut<'r, T>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.reduce_in_place(&mut recvbuff, reduce_op, root)
    }

    /// As [`Comm::reduce_scatter`].
    pub fn reduce_scatter<'s: 'g, 'r: 'g, T: NcclType>(
        &mut self,
        sendbuff: CudaView<'s, T>,
        mut recvbuff: CudaViewMut<'r, T>,
        reduce_op: &ReduceOp,
    ) -> Result<NcclStatus, NcclError> {
        self.comm.reduce_scatter(&sendbuff, &mut recvbuff, reduce_op)
    }
}
