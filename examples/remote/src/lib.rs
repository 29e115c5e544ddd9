//! A process with AMD GPUs serves them to others, over Burn's own engine for that, `burn-remote`.
//!
//! [`serve`] is `BackendServer::<Rocm>` on a WebSocket; [`connect`] gives a device of `RemoteBackend`, on which [`train`] runs as on any
//! other backend: each operator travels to the server and is launched there, only data that is read comes back. The client needs no
//! GPU, no compiler and nothing of rocfire's. Whole Burn applications use the same server through Burn's feature
//! `remote-websocket` and `burn::remote::RemoteHost`.

#![deny(missing_docs)]

use std::net::TcpListener;

use burn_autodiff::Autodiff;
use burn_backend::ops::FloatTensorOps;
use burn_backend::{AutodiffBackend, Backend, ExecutionError, TensorData, read_sync};
use burn_ir::BackendIr;
use burn_remote::server::{BackendServer, ServeError, TokenAuthorizer, WebSocketTransport};
use burn_remote::{ConnectError, HostSpec, RemoteDevice};
use rocfire_burn::{Fused, Rocm, RocmDevice};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port, or the server behind it.
    #[error("cannot serve: {0:?}")]
    Serve(ServeError),
    /// A port that cannot be had.
    #[error("cannot listen on port {port}: {source}")]
    Listen {
        /// The port.
        port: u16,
        /// Why not.
        source: std::io::Error,
    },
    /// A token without a character.
    #[error("the token is empty")]
    Token,
    /// No server, no such device there, or not admitted.
    #[error("cannot connect to {url}: {reason:?}")]
    Connect {
        /// Where.
        url: String,
        /// Why not.
        reason: ConnectError,
    },
    /// A device of ours.
    #[error(transparent)]
    Device(#[from] rocfire_burn::Error),
    /// What the server's device said.
    #[error("on the server: {0}")]
    Execution(ExecutionError),
}

/// How a process serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it serves; clients choose by the position.
    pub devices: Vec<RocmDevice>,
    /// The port, 0 for one that is free.
    pub port: u16,
    /// What clients must know, if anything.
    pub token: Option<String>,
    /// Whether operators of a client are collected and fused before they are launched.
    pub fusion: bool,
}

/// Serves until the process is told to end (Ctrl-C, SIGTERM). `listening` is called with the address once clients can connect.
///
/// # Errors
/// [`Error::Device`] for a device that is not there, before anything listens; [`Error::Listen`], [`Error::Token`], [`Error::Serve`].
pub fn serve(options: &Options, listening: impl FnOnce(&str)) -> Result<(), Error> {
    // A device that cannot be opened is told here, not to the first client.
    options.devices.iter().try_for_each(|device| device.open().map(drop))?;
    if options.fusion { serve_as::<Fused>(options, listening) } else { serve_as::<Rocm>(options, listening) }
}

fn serve_as<B: BackendIr<Device = RocmDevice>>(options: &Options, listening: impl FnOnce(&str)) -> Result<(), Error> {
    let port = options.port;
    let listener = TcpListener::bind(("127.0.0.1", port)).map_err(|source| Error::Listen { port, source })?;
    let address = listener.local_addr().map_err(|source| Error::Listen { port, source })?;
    let mut server = BackendServer::<B>::new(options.devices.clone());
    if let Some(token) = &options.token {
        server = server.with_authorizer(TokenAuthorizer::new(token.as_str()).map_err(|_| Error::Token)?);
    }
    listening(&format!("ws://{address}"));
    server.serve(WebSocketTransport::from_listener(listener)).map_err(Error::Serve)
}

/// Device number `index` of a server.
///
/// # Errors
/// [`Error::Connect`].
pub fn connect(url: &str, index: usize, token: Option<&str>) -> Result<RemoteDevice, Error> {
    let host = HostSpec::websocket(url);
    let host = match token {
        Some(token) => host.with_credential(token),
        None => host,
    };
    host.connect(index).map_err(|reason| Error::Connect { url: url.to_owned(), reason })
}

const SAMPLES: usize = 64;
const WIDTH: usize = 32;
const RATE: f32 = 0.1;

/// Numbers between -1 and 1, the same on every machine.
fn numbers(count: usize, mut state: u32) -> Vec<f32> {
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Fits a perceptron of one hidden layer to a sine, on any backend, and gives the loss of every step.
///
/// # Errors
/// [`Error::Execution`].
pub fn train<B: Backend>(device: &B::Device, steps: usize) -> Result<Vec<f32>, Error> {
    type A<B> = Autodiff<B>;
    let given = |values: Vec<f32>, shape: [usize; 2]| A::<B>::float_from_data(TensorData::new(values, shape), device);
    let x: Vec<f32> = (0..SAMPLES).map(|n| n as f32 / SAMPLES as f32 * 2.0 - 1.0).collect();
    let y = given(x.iter().map(|x| (3.0 * x).sin()).collect(), [SAMPLES, 1]);
    let x = given(x, [SAMPLES, 1]);
    let shapes = [[1, WIDTH], [1, WIDTH], [WIDTH, 1], [1, 1]];
    let mut weights = shapes.map(|shape| given(numbers(shape[0] * shape[1], shape[0] as u32), shape));
    let mut losses = Vec::with_capacity(steps);
    for _ in 0..steps {
        let tracked = weights.map(|weight| A::<B>::float_set_require_grad(weight, true));
        let [w1, b1, w2, b2] = tracked.each_ref().map(Clone::clone);
        let hidden = A::<B>::float_tanh(A::<B>::float_add(A::<B>::float_matmul(x.clone(), w1), b1));
        let error = A::<B>::float_sub(A::<B>::float_add(A::<B>::float_matmul(hidden, w2), b2), y.clone());
        let loss = A::<B>::float_mean(A::<B>::float_mul(error.clone(), error));
        let gradients = A::<B>::backward(loss.clone());
        weights = tracked.map(|weight| {
            let gradient = A::<B>::grad(&weight, &gradients).expect("the loss depends on every weight");
            let step = B::float_mul_scalar(gradient, RATE.into());
            A::<B>::from_inner(B::float_sub(A::<B>::inner(weight), step))
        });
        let loss = read_sync(B::float_into_data(A::<B>::inner(loss))).map_err(Error::Execution)?;
        losses.push(loss.iter::<f32>().next().unwrap_or(f32::NAN));
    }
    Ok(losses)
}
