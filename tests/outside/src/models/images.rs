//! Models that look at images, smaller than they were made for.

use candle_core::{Result, Tensor};
use candle_nn::{Module, ModuleT};
use candle_transformers::models as of;
use serde_json::json;

use super::{Model, Ways};
use crate::setup::Setup;

const CLASSES: usize = 10;

/// An image of so many rows and columns.
fn image(setup: &Setup, size: usize) -> Result<Tensor> {
    setup.numbers(&[1, 3, size, size])
}

const fn row(name: &'static str, run: fn(&Setup) -> Result<Vec<Tensor>>) -> Model {
    Model { name, ways: Ways::Plain, run }
}

pub(super) const MODELS: &[Model] = &[
    row("vit", |setup| {
        let config = setup.config(json!({
            "hidden_act": "gelu", "image_size": 32, "patch_size": 8, "num_channels": 3, "qkv_bias": true
        }))?;
        let model = of::vit::Model::new(&config, CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("siglip image", |setup| {
        let config = setup.config(json!({
            "hidden_act": "gelu_pytorch_tanh", "image_size": 32, "patch_size": 8, "num_channels": 3
        }))?;
        let model = of::siglip::VisionModel::new(&config, true, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("clip image", |setup| {
        let config = of::clip::vision_model::ClipVisionConfig {
            embed_dim: 64,
            activation: of::clip::text_model::Activation::QuickGelu,
            intermediate_size: 96,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            projection_dim: 32,
            num_channels: 3,
            image_size: 32,
            patch_size: 8,
        };
        let model = of::clip::vision_model::ClipVisionTransformer::new(setup.weights(), &config)?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("dinov2", |setup| {
        let model = of::dinov2::DinoVisionTransformer::new(setup.weights(), 2, 48, 4)?;
        Ok(vec![model.forward(&image(setup, 56)?)?])
    }),
    row("segformer", |setup| {
        let config = setup.config(json!({
            "num_channels": 3, "num_encoder_blocks": 4, "depths": [1, 1, 1, 1], "sr_ratios": [8, 4, 2, 1],
            "hidden_sizes": [16, 24, 32, 48], "patch_sizes": [7, 3, 3, 3], "strides": [4, 2, 2, 2],
            "num_attention_heads": [1, 2, 4, 4], "mlp_ratios": [2, 2, 2, 2], "hidden_act": "gelu",
            "decoder_hidden_size": 32
        }))?;
        let model = of::segformer::SemanticSegmentationModel::new(&config, CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 64)?)?])
    }),
    row("convmixer", |setup| {
        let model = of::convmixer::c1024_20(CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 28)?)?])
    }),
    row("convnext", |setup| {
        let model = of::convnext::convnext(&of::convnext::Config::atto(), CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("resnet18", |setup| {
        let model = of::resnet::resnet18(CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("mobileone", |setup| {
        let model = of::mobileone::mobileone(&of::mobileone::Config::s0(), CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("mobilenetv4", |setup| {
        let model = of::mobilenetv4::mobilenetv4(&of::mobilenetv4::Config::small(), CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("efficientnet", |setup| {
        let configs = of::efficientnet::MBConvConfig::b0();
        let model = of::efficientnet::EfficientNet::new(setup.weights(), configs, CLASSES)?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("repvgg", |setup| {
        let model = of::repvgg::repvgg(&of::repvgg::Config::a0(), CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 32)?)?])
    }),
    row("fastvit", |setup| {
        let model = of::fastvit::fastvit(&of::fastvit::Config::t8(), CLASSES, setup.weights())?;
        Ok(vec![model.forward_t(&image(setup, 64)?, false)?])
    }),
];
