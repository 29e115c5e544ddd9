//! Hands Burn's operators to a device's recorder, by the traits of `burn-router`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burn_backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps, QTensorOps};
use burn_backend::{Backend, DType, DTypeUsageSet, DeviceId, DeviceOps, ExecutionError, Shape, TensorData};
use burn_ir::{BackendIr, GraphBindings, GraphId, OperationIr, TensorHandle, TensorId, TensorIr, TensorStatus};
use burn_router::{BackendRouter, MultiBackendBridge, RouterChannel, RouterClient, RouterTensor, get_client};
use burn_std::future::DynFut;

use super::state::State;
use crate::fusion::handle::Handle;
use crate::version::{burn_device, named};
use crate::{BurnDevice, Rocm, RocmDevice};

/// The backend of `burn-router` that turns Burn's operators into operations for [`Client`].
pub(super) type Router = BackendRouter<Channel>;

/// A tensor that may not have been computed yet.
pub(crate) type Lazy = RouterTensor<Client>;

/// Names the recorders to `burn-router`. There is one for each device, for as long as the process runs.
#[derive(Clone, Copy, Debug)]
pub struct Channel;

/// A device's recorder. It is a name that is copied with every tensor.
#[derive(Clone, Copy)]
pub struct Client {
    device: RocmDevice,
    state: &'static Mutex<State>,
}

impl Client {
    /// The recorder of a device.
    pub(crate) fn of(device: &RocmDevice) -> Client {
        get_client::<Channel>(&burn_device(*device))
    }

    pub(super) fn state(&self) -> MutexGuard<'static, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tensor that exists already, from its handle.
    pub(super) fn tensor(self, handle: Handle, shape: Shape, dtype: DType) -> Lazy {
        let id = self.create_empty_handle();
        self.state().register(id, handle);
        RouterTensor::new(id, shape, dtype, self)
    }

    /// The handle of a tensor. What makes it runs first.
    ///
    /// # Errors
    /// The error of what should have made it.
    pub(super) fn take(&self, tensor: &TensorIr) -> Result<TensorHandle<Handle>, ExecutionError> {
        let handle = self.state().take(tensor).map_err(|error| match error.depth() {
            0 => error.cause().clone(),
            _ => ExecutionError::with_context(error.to_string()),
        })?;
        Ok(TensorHandle { handle, shape: tensor.shape.clone() })
    }
}

/// A name that no tensor has had.
pub(super) fn new_name() -> TensorId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    TensorId::new(COUNT.fetch_add(1, Ordering::Relaxed))
}

impl RouterClient for Client {
    type Device = BurnDevice;

    fn register_op(&self, mut operation: OperationIr) {
        // A tensor from the host has its handle before this operation comes.
        if !matches!(operation, OperationIr::Init(_)) {
            self.state().record(&mut operation);
        }
    }

    fn read_tensor_async(&self, tensor: TensorIr) -> DynFut<Result<TensorData, ExecutionError>> {
        let taken = self.take(&tensor);
        Box::pin(async move {
            let handle = taken?;
            match tensor.dtype {
                DType::QFloat(_) => Rocm::q_into_data(Rocm::quantized_tensor(handle)).await,
                DType::Bool(_) => Rocm::bool_into_data(Rocm::bool_tensor(handle)).await,
                dtype if dtype.is_float() => Rocm::float_into_data(Rocm::float_tensor(handle)).await,
                _ => Rocm::int_into_data(Rocm::int_tensor(handle)).await,
            }
        })
    }

    fn sync(&self) -> Result<(), ExecutionError> {
        self.state().run_all();
        Rocm::sync(&self.device)
    }

    fn flush(&self) {
        self.state().run_all();
        if let Err(error) = Rocm::flush(&self.device) {
            tracing::warn!("{} was not flushed: {error:?}", self.device);
        }
    }

    fn create_empty_handle(&self) -> TensorId {
        new_name()
    }

    fn register_tensor_data(&self, data: TensorData) -> Lazy {
        let (shape, dtype) = (data.shape().clone(), data.dtype());
        let handle = match dtype {
            DType::QFloat(_) => Rocm::quantized_tensor_handle(Rocm::q_from_data(data, &self.device)),
            DType::Bool(_) => Rocm::bool_tensor_handle(Rocm::bool_from_data(data, &self.device)),
            dtype if dtype.is_float() => Rocm::float_tensor_handle(Rocm::float_from_data(data, &self.device)),
            _ => Rocm::int_tensor_handle(Rocm::int_from_data(data, &self.device)),
        };
        self.tensor(handle, shape, dtype)
    }

    fn device(&self) -> BurnDevice {
        burn_device(self.device)
    }

    fn seed(&self, seed: u64) {
        self.state().run_all();
        Rocm::seed(&self.device, seed);
    }

    fn dtype_usage(&self, dtype: DType) -> DTypeUsageSet {
        Rocm::dtype_usage(&self.device, dtype)
    }

    fn register_and_execute_graph(&self, _: GraphId, _: Vec<OperationIr>, _: GraphBindings) {
        unreachable!("operations reach the recorder one by one")
    }

    fn execute_graph(&self, _: GraphId, _: GraphBindings) {
        unreachable!("operations reach the recorder one by one")
    }

    fn register_alias(&self, new_id: TensorId, src_id: TensorId) {
        let source = TensorIr {
            status: TensorStatus::ReadOnly,
            ..TensorIr::uninit(src_id, Shape::from(Vec::<usize>::new()), DType::F32)
        };
        if let Ok(handle) = self.take(&source) {
            self.state().register(new_id, handle.handle);
        }
    }
}

impl RouterChannel for Channel {
    type Device = BurnDevice;
    type Bridge = Bridge;
    type Client = Client;

    fn name(device: &BurnDevice) -> String {
        Rocm::name(&named(device))
    }

    fn init_client(device: &BurnDevice) -> Client {
        let device = named(device);
        static STATES: Mutex<Option<HashMap<DeviceId, &'static Mutex<State>>>> = Mutex::new(None);
        let mut states = STATES.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || &*Box::leak(Box::new(Mutex::new(State::new(device))));
        let state = *states.get_or_insert_default().entry(device.id()).or_insert_with(made);
        Client { device, state }
    }

    fn get_tensor_handle(tensor: &TensorIr, client: &Client) -> Handle {
        match client.take(tensor) {
            Ok(taken) => taken.handle,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn register_tensor(client: &Client, handle: Handle, shape: Shape, dtype: DType) -> Lazy {
        client.tensor(handle, shape, dtype)
    }
}

/// Moves tensors between devices.
#[derive(Clone, Copy, Debug)]
pub struct Bridge;

impl MultiBackendBridge for Bridge {
    type TensorHandle = Handle;
    type Device = BurnDevice;

    fn change_backend_float(handle: Handle, shape: Shape, device: &BurnDevice) -> Handle {
        let tensor = Rocm::float_tensor(TensorHandle { handle, shape });
        Rocm::float_tensor_handle(Rocm::float_to_device(tensor, &named(device)))
    }

    fn change_backend_int(handle: Handle, shape: Shape, device: &BurnDevice) -> Handle {
        let tensor = Rocm::int_tensor(TensorHandle { handle, shape });
        Rocm::int_tensor_handle(Rocm::int_to_device(tensor, &named(device)))
    }

    fn change_backend_bool(handle: Handle, shape: Shape, device: &BurnDevice) -> Handle {
        let tensor = Rocm::bool_tensor(TensorHandle { handle, shape });
        Rocm::bool_tensor_handle(Rocm::bool_to_device(tensor, &named(device)))
    }
}
