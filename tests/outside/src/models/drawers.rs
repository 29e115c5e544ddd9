//! Models that draw: the parts of diffusion models, each once.

use candle_core::{Result, Tensor};
use candle_transformers::models as of;

use super::{Model, Ways};
use crate::setup::Setup;

const fn row(name: &'static str, ways: Ways, run: fn(&Setup) -> Result<Vec<Tensor>>) -> Model {
    Model { name, ways, run }
}

pub(super) const MODELS: &[Model] = &[
    row("stable_diffusion unet", Ways::Flash, |setup| {
        use of::stable_diffusion::unet_2d::{BlockConfig, UNet2DConditionModel, UNet2DConditionModelConfig};
        let block = |out_channels, use_cross_attn| BlockConfig { out_channels, use_cross_attn, attention_head_dim: 2 };
        let config = UNet2DConditionModelConfig {
            blocks: vec![block(32, Some(1)), block(64, None)],
            layers_per_block: 1,
            norm_num_groups: 8,
            cross_attention_dim: 24,
            ..Default::default()
        };
        let model = UNet2DConditionModel::new(setup.weights(), 4, 4, setup.flash, config)?;
        Ok(vec![model.forward(&setup.numbers(&[1, 4, 8, 8])?, 7.0, &setup.numbers(&[1, 6, 24])?)?])
    }),
    row("stable_diffusion vae", Ways::Plain, |setup| {
        use of::stable_diffusion::vae::{AutoEncoderKL, AutoEncoderKLConfig};
        let config = AutoEncoderKLConfig { block_out_channels: vec![16, 32], norm_num_groups: 8, ..Default::default() };
        let model = AutoEncoderKL::new(setup.weights(), 3, 3, config)?;
        Ok(vec![model.decode(&setup.numbers(&[1, 4, 8, 8])?)?])
    }),
    row("flux", Ways::Plain, |setup| {
        use of::flux::{model, WithForward};
        let config = model::Config {
            in_channels: 16,
            vec_in_dim: 24,
            context_in_dim: 32,
            hidden_size: 64,
            mlp_ratio: 2.0,
            num_heads: 4,
            depth: 1,
            depth_single_blocks: 2,
            axes_dim: vec![4, 6, 6],
            ..model::Config::dev()
        };
        let model = model::Flux::new(&config, setup.weights())?;
        let numbers = |shape: &[usize]| setup.numbers(shape);
        let (drawn, places) = (numbers(&[1, 16, 16])?, numbers(&[1, 16, 3])?);
        let (words, order) = (numbers(&[1, 6, 32])?, numbers(&[1, 6, 3])?);
        let step = numbers(&[1])?;
        Ok(vec![model.forward(&drawn, &places, &words, &order, &step, &numbers(&[1, 24])?, Some(&step))?])
    }),
    row("flux autoencoder", Ways::Plain, |setup| {
        use of::flux::autoencoder::{AutoEncoder, Config};
        let config =
            Config { resolution: 16, ch: 32, ch_mult: vec![1, 2], num_res_blocks: 1, z_channels: 4, ..Config::dev() };
        let model = AutoEncoder::new(&config, setup.weights())?;
        Ok(vec![model.decode(&setup.numbers(&[1, 4, 8, 8])?)?])
    }),
    row("mmdit", Ways::Flash, |setup| {
        use of::mmdit::model::{Config, MMDiT};
        let config = Config {
            patch_size: 2,
            in_channels: 4,
            out_channels: 4,
            depth: 2,
            head_size: 32,
            adm_in_channels: 24,
            pos_embed_max_size: 8,
            context_embed_size: 48,
            frequency_embedding_size: 32,
        };
        let model = MMDiT::new(&config, setup.flash, setup.weights())?;
        let numbers = |shape: &[usize]| setup.numbers(shape);
        let (drawn, words) = (numbers(&[1, 4, 8, 8])?, numbers(&[1, 6, 48])?);
        let step = numbers(&[1])?.to_dtype(candle_core::DType::F32)?;
        Ok(vec![model.forward(&drawn, &step, &numbers(&[1, 24])?, &words, None)?])
    }),
    row("wuerstchen prior", Ways::Flash, |setup| {
        let model = of::wuerstchen::prior::WPrior::new(4, 32, 24, 16, 2, 2, setup.flash, setup.weights())?;
        let (drawn, words) = (setup.numbers(&[1, 4, 6, 6])?, setup.numbers(&[1, 6, 24])?);
        Ok(vec![model.forward(&drawn, &setup.numbers(&[1])?, &words)?])
    }),
    row("wuerstchen paella", Ways::Plain, |setup| {
        let model = of::wuerstchen::paella_vq::PaellaVQ::new(setup.weights())?;
        Ok(vec![model.decode(&setup.numbers(&[1, 4, 4, 4])?)?])
    }),
    row("z_image vae", Ways::Plain, |setup| {
        use of::z_image::vae::{AutoEncoderKL, VaeConfig};
        let config = VaeConfig {
            latent_channels: 4,
            block_out_channels: vec![16, 32],
            layers_per_block: 1,
            norm_num_groups: 8,
            ..VaeConfig::z_image()
        };
        let model = AutoEncoderKL::new(&config, setup.weights())?;
        Ok(vec![model.decode(&setup.numbers(&[1, 4, 6, 6])?)?])
    }),
];
