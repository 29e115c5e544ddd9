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

const fn single(name: &'static str, run: fn(&Setup) -> Result<Vec<Tensor>>) -> Model {
    Model { name, ways: Ways::Single, run }
}

pub(super) const MODELS: &[Model] = &[
    row("vit", |setup| {
        let model = of::vit::Model::new(&setup.config(vision())?, CLASSES, setup.weights())?;
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
        Ok(vec![model.forward(&image(setup, 128)?)?])
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
        // A file has no such parts where they would be of another size.
        let weights = setup.weights_without(&["conv_scale", "stages.0.downsample"]);
        let model = of::fastvit::fastvit(&of::fastvit::Config::t8(), CLASSES, weights)?;
        Ok(vec![model.forward_t(&image(setup, 64)?, false)?])
    }),
    // Weights that nobody trained make of a rounding a thousand times as much, so that 16-bit floats leave nothing to compare.
    single("efficientvit", |setup| {
        let model = of::efficientvit::efficientvit(&of::efficientvit::Config::m0(), CLASSES, setup.weights())?;
        Ok(vec![model.forward(&image(setup, 224)?)?])
    }),
    // The next three have one size of image.
    row("beit", |setup| {
        let model = of::beit::BeitVisionTransformer::new(setup.weights(), 1, 32, 2)?;
        Ok(vec![model.forward(&image(setup, 384)?)?])
    }),
    row("eva2", |setup| {
        let model = of::eva2::EVA2VisionTransformer::new(setup.weights(), 1, 64, 1)?;
        Ok(vec![model.forward(&image(setup, 448)?)?])
    }),
    row("dinov2reg4", |setup| {
        let model = of::dinov2reg4::DinoVisionTransformer::new(setup.weights(), 1, 32, 2)?;
        Ok(vec![model.forward(&image(setup, 518)?)?])
    }),
    row("segment_anything", |setup| {
        let model = of::segment_anything::image_encoder::ImageEncoderViT::new(
            64,
            8,
            3,
            32,
            2,
            2,
            16,
            true,
            true,
            true,
            4,
            &[1],
            setup.weights(),
        )?;
        Ok(vec![model.forward(&image(setup, 64)?)?])
    }),
    row("trocr", |setup| {
        let sight = setup.config(vision())?;
        let words = setup.config(json!({
            "d_model": 64, "cross_attention_hidden_size": 64, "decoder_layers": 2, "decoder_attention_heads": 4,
            "decoder_ffn_dim": 96, "activation_function": "gelu", "dropout": 0.0, "attention_dropout": 0.0,
            "activation_dropout": 0.0, "decoder_start_token_id": 0, "init_std": 0.02, "decoder_layerdrop": 0.0,
            "scale_embedding": true
        }))?;
        let mut model = of::trocr::TrOCRModel::new(&sight, &words, setup.weights())?;
        let seen = model.encoder().forward(&image(setup, 32)?)?;
        let read = (0..4).map(|place| model.decode(&setup.tokens(place, 1)?, &seen, place));
        std::iter::once(Ok(seen.clone())).chain(read).collect()
    }),
    row("blip", |setup| {
        let config: of::blip::Config = setup.config(blip())?;
        let mut model = of::blip::BlipForConditionalGeneration::new(&config, setup.weights())?;
        let seen = image(setup, 32)?.apply(model.vision_model())?;
        let read = setup.text(|tokens, _| model.text_decoder().forward(tokens, &seen))?;
        Ok(std::iter::once(seen.clone()).chain(read).collect())
    }),
];

fn vision() -> serde_json::Value {
    json!({ "hidden_act": "gelu", "image_size": 32, "patch_size": 8, "num_channels": 3, "qkv_bias": true })
}

/// BLIP's configuration.
pub(super) fn blip() -> serde_json::Value {
    let sizes = json!({
        "hidden_size": 64, "intermediate_size": 128, "projection_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "hidden_act": "gelu", "layer_norm_eps": 1e-5, "image_size": 32, "patch_size": 8, "vocab_size": 96,
        "encoder_hidden_size": 64, "max_position_embeddings": 64, "is_decoder": true
    });
    json!({ "text_config": sizes, "vision_config": sizes, "projection_dim": 32, "image_text_hidden_size": 32 })
}
