//! `models train`: a model of published size, trained in mixed precision, timed, checked, exported, drawn.

use std::error::Error;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::ModuleSnapshot;
use burn::tensor::Device;
use models::train::{
    Batches, Counters, Description, Exported, ImageTask, Precision, Recipe, Report, Rule, Schedule, Task, Trainer,
    WordTask, draw, export, images, product_rate, train, words,
};
use models::{Depth, Fused, Gpt, GptSizes, ResNet, ResNetSizes, started};
use rocfire_burn::{RocmDevice, recorded};
use safetensors::Dtype;

/// Rows of the embedding are a multiple of this.
const VOCABULARY_MULTIPLE: usize = 64;
/// What the loss is multiplied by in f16, whose smallest number is 6e-8.
const F16_LOSS_SCALE: f64 = 1024.0;

/// What is trained, or drawn.
#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// A decoder of GPT-2's shape: AdamW, gradients clipped by their norm.
    Gpt(GptArguments),
    /// ResNet-50: gradient descent with momentum.
    Resnet50(ResNetArguments),
    /// Draws the losses of trainings that `--out` and `train_torch.py` wrote, one curve over the other, and prints their figures.
    Plot(PlotArguments),
}

/// What every training has.
#[derive(Debug, clap::Args)]
pub struct Shared {
    /// Training steps.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Parts of a batch, whose gradients are added up before a step.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    accumulate: u32,
    /// Balanced checkpointing: what is cheap to compute again is not kept for the gradient.
    #[arg(long)]
    checkpoint: bool,
    /// What the loss is multiplied by before backward; 1024 in f16, else 1.
    #[arg(long)]
    loss_scale: Option<f64>,
    /// Steps over which the rate rises.
    #[arg(long, default_value_t = 20)]
    warm_up: usize,
    /// Steps between two reads of the losses.
    #[arg(long, default_value_t = 1)]
    read_every: usize,
    /// Decides weights and batches.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Teraflops a second that the training is a share of; measured on a GPU by a product of 8192 x 8192 x 8192 if it is not given.
    #[arg(long)]
    peak: Option<f64>,
    /// Writes losses and figures as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Writes weights, batches and recipe to this folder, for `train_torch.py`.
    #[arg(long)]
    export: Option<PathBuf>,
    /// What this training is called in tables and pictures.
    #[arg(long, default_value = "rocfire")]
    name: String,
    /// Prints every plan of the fusion.
    #[arg(long)]
    plans: bool,
}

/// Of [`Gpt`].
#[derive(Debug, clap::Args)]
pub struct GptArguments {
    #[command(flatten)]
    shared: Shared,
    /// Sequences in a batch.
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Words of a sequence.
    #[arg(long, default_value_t = GptSizes::SMALL.context)]
    context: usize,
    /// Blocks.
    #[arg(long, default_value_t = GptSizes::SMALL.layers)]
    layers: usize,
    /// Width of the residual stream.
    #[arg(long, default_value_t = GptSizes::SMALL.width)]
    width: usize,
    /// Attention heads.
    #[arg(long, default_value_t = GptSizes::SMALL.heads)]
    heads: usize,
    /// Distinct words; the embedding has so many rows, rounded up to a multiple of 64.
    #[arg(long, default_value_t = 50_257)]
    vocabulary: usize,
    /// What activations and the weights that compute are; the weights that are learned are f32.
    #[arg(long, value_enum, default_value = "bf16")]
    precision: Precision,
    /// How far a step goes.
    #[arg(long, default_value_t = 6e-4)]
    rate: f64,
    /// The most that the norm of all gradients may be; 0 does not clip.
    #[arg(long, default_value_t = 1.0)]
    clip: f64,
    /// What rocfire-burn-nn's modules compute in the place of Burn's own.
    #[arg(long, value_enum, num_args = 1.., value_delimiter = ',', default_values = ["attention", "norms", "loss"])]
    fused: Vec<Part>,
    /// Burn's own modules throughout.
    #[arg(long, conflicts_with = "fused")]
    plain: bool,
}

/// A part of [`Gpt`] that there are two of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Attention.
    Attention,
    /// Norms of rows.
    Norms,
    /// Cross-entropy.
    Loss,
}

/// Of [`ResNet`].
#[derive(Debug, clap::Args)]
pub struct ResNetArguments {
    #[command(flatten)]
    shared: Shared,
    /// Images in a batch.
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Height and width of an image.
    #[arg(long, default_value_t = 224)]
    side: usize,
    /// Channels of the first stage.
    #[arg(long, default_value_t = 64)]
    width: usize,
    /// Classes told apart.
    #[arg(long, default_value_t = 1000)]
    classes: usize,
    /// Distinct batches.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    batches: u32,
    /// What activations and convolutions are; batch normalisation and the weights that are learned are f32.
    #[arg(long, value_enum, default_value = "f16")]
    precision: Precision,
    /// How far a step goes.
    #[arg(long, default_value_t = 0.025)]
    rate: f64,
}

/// Of a picture.
#[derive(Debug, clap::Args)]
pub struct PlotArguments {
    /// Files that trainings wrote.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The picture.
    #[arg(long, default_value = "target/train/losses.png")]
    picture: PathBuf,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Does it.
///
/// # Errors
/// Of the training, the device, files.
pub fn run(what: &What) -> Result<()> {
    match what {
        What::Gpt(arguments) => arguments.run(),
        What::Resnet50(arguments) => arguments.run(),
        What::Plot(arguments) => arguments.run(),
    }
}

impl GptArguments {
    fn run(&self) -> Result<()> {
        let shared = &self.shared;
        let sizes = GptSizes {
            vocabulary: self.vocabulary.next_multiple_of(VOCABULARY_MULTIPLE),
            context: self.context,
            width: self.width,
            heads: self.heads,
            layers: self.layers,
        };
        let has = |part| !self.plain && self.fused.contains(&part);
        let fused = Fused { attention: has(Part::Attention), norms: has(Part::Norms), loss: has(Part::Loss) };
        let recipe = Recipe {
            clip: (self.clip > 0.0).then_some(self.clip),
            rule: Rule::AdamW { beta_1: 0.9, beta_2: 0.95, epsilon: 1e-8, decay: 0.1 },
            ..shared.recipe(self.precision, self.rate)
        };
        let batches = shared.batches(self.batch, shared.steps as usize)?;
        let drawn = words(&batches, self.context, self.vocabulary);
        let device = shared.device();
        let model = started(shared.seed, &device, |device| Gpt::new(&sizes, device))?;
        let operations = sizes.operations(self.batch * self.context);
        let named = [
            ("vocabulary", sizes.vocabulary),
            ("context", sizes.context),
            ("width", sizes.width),
            ("heads", sizes.heads),
            ("layers", sizes.layers),
        ];
        let description = shared.description("gpt", &named, &batches, self.batch * self.context, operations, recipe);
        let exported = [Exported {
            name: "words",
            dtype: Dtype::I32,
            shape: vec![batches.count, batches.batch, self.context + 1],
            bytes: bytemuck::cast_slice(&drawn),
        }];
        let task = WordTask::new(&sizes, &batches, &drawn, fused, &device);
        shared.train(&task, model, &description, &exported)
    }
}

impl ResNetArguments {
    fn run(&self) -> Result<()> {
        let shared = &self.shared;
        let sizes = ResNetSizes { depth: Depth::L50, width: self.width, classes: self.classes };
        let recipe =
            Recipe { rule: Rule::Sgd { momentum: 0.9, decay: 1e-4 }, ..shared.recipe(self.precision, self.rate) };
        let batches = shared.batches(self.batch, self.batches.min(shared.steps) as usize)?;
        let (pixels, labels) = images(&batches, self.side, self.classes);
        let device = shared.device();
        let model = started(shared.seed, &device, |device| ResNet::new(&sizes, device))?;
        let operations = model.operations(self.batch, self.side);
        let named = [("width", self.width), ("classes", self.classes), ("side", self.side)];
        let description = shared.description("resnet50", &named, &batches, self.batch, operations, recipe);
        let exported = [
            Exported {
                name: "images",
                dtype: Dtype::U8,
                shape: vec![batches.count, batches.batch, 3, self.side, self.side],
                bytes: &pixels,
            },
            Exported {
                name: "classes",
                dtype: Dtype::I32,
                shape: vec![batches.count, batches.batch],
                bytes: bytemuck::cast_slice(&labels),
            },
        ];
        let task = ImageTask::new(&batches, self.side, (&pixels, &labels), self.precision.dtype(), &device);
        shared.train(&task, model, &description, &exported)
    }
}

impl PlotArguments {
    fn run(&self) -> Result<()> {
        let read = |path: &PathBuf| -> Result<Report> {
            let text =
                std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
        };
        let reports = self.files.iter().map(read).collect::<Result<Vec<Report>>>()?;
        println!("{}", Report::TITLES);
        reports.iter().for_each(|report| println!("{}", report.row()));
        draw(&reports, &self.picture)?;
        println!("wrote {}", self.picture.display());
        Ok(())
    }
}

impl Shared {
    /// With what the models do not share left for them to say.
    fn recipe(&self, precision: Precision, rate: f64) -> Recipe {
        let scale = if precision == Precision::F16 { F16_LOSS_SCALE } else { 1.0 };
        Recipe {
            precision,
            accumulate: self.accumulate as usize,
            clip: None,
            loss_scale: self.loss_scale.unwrap_or(scale),
            rule: Rule::Sgd { momentum: 0.0, decay: 0.0 },
            rate,
            warm_up: self.warm_up,
        }
    }

    fn batches(&self, batch: usize, count: usize) -> Result<Batches> {
        let parts = self.accumulate as usize;
        if batch == 0 || !batch.is_multiple_of(parts) {
            return Err(format!("--batch must be a multiple of --accumulate {parts}, got {batch}").into());
        }
        Ok(Batches { count, batch, parts, seed: self.seed })
    }

    fn device(&self) -> Device {
        let device = Device::from(RocmDevice::default().burn()).autodiff();
        if self.checkpoint { device.gradient_checkpointing() } else { device }
    }

    fn description(
        &self,
        model: &str,
        sizes: &[(&str, usize)],
        batches: &Batches,
        items: usize,
        operations: f64,
        recipe: Recipe,
    ) -> Description {
        Description {
            model: model.to_owned(),
            sizes: sizes.iter().map(|&(name, size)| (name.to_owned(), size)).collect(),
            batch: batches.batch,
            steps: self.steps as usize,
            items,
            operations,
            recipe,
        }
    }

    fn train<T: Task>(
        &self,
        task: &T,
        model: T::Model,
        description: &Description,
        batches: &[Exported<'_>],
    ) -> Result<()>
    where
        T::Model: ModuleSnapshot,
    {
        let rocm = RocmDevice::default();
        let opened = rocm.open()?;
        println!("{}, {:?}, {} weights", description.model, description.recipe, model.num_params());
        if let Some(folder) = &self.export {
            export(folder, &model, batches, description)?;
            println!("wrote {}", folder.display());
        }
        let counters = || Counters {
            launches: opened.launches(),
            compiled: opened.compiled(),
            planning: recorded(&rocm).planning,
        };
        let schedule = Schedule { steps: self.steps as usize, read_every: self.read_every };
        let (trainer, trained) = train(task, Trainer::new(model, description.recipe), schedule, &counters)?;
        let memory = opened.memory();
        drop(trainer);
        let peak = match self.peak {
            Some(teraflops) => Some(teraflops * 1e12),
            None if rocm.is_gpu()? => Some(product_rate(description.recipe.precision.dtype(), &rocm.burn().into())?),
            None => None,
        };
        let report = Report {
            name: self.name.clone(),
            device: rocm.to_string(),
            model: description.model.clone(),
            items: task.items(),
            peak_bytes: memory.peak_bytes,
            reserved_bytes: memory.reserved_bytes,
            live_bytes: memory.live_bytes,
            operations: description.operations,
            peak_operations: peak,
            ..trained.into()
        };
        if let Some(peak) = peak {
            println!("shares are of {:.1} TFLOP/s", peak / 1e12);
        }
        println!("{}\n{}", Report::TITLES, report.row());
        if let Some(path) = &self.out {
            write(path, &report)?;
        }
        if self.plans {
            print!("{}", rocfire_burn::explain());
        }
        Ok(())
    }
}

fn write(path: &Path, report: &Report) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let text = serde_json::to_string_pretty(report).map_err(|error| failed(&error))?;
    Ok(std::fs::write(path, text).map_err(|error| failed(&error))?)
}
