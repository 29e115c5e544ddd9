//! Models that hear.

use candle_core::{Module, Result, Tensor};
use candle_transformers::models as of;
use serde_json::json;

use super::{Model, Ways};

pub(super) const MODELS: &[Model] = &[
    Model {
        name: "whisper",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({
                "num_mel_bins": 16, "max_source_positions": 20, "d_model": 64, "encoder_attention_heads": 4,
                "encoder_layers": 2, "max_target_positions": 20, "decoder_attention_heads": 4, "decoder_layers": 2
            }))?;
            let mut model = of::whisper::model::Whisper::load(&setup.weights(), config)?;
            let heard = model.encoder.forward(&setup.numbers(&[1, 16, 40])?, true)?;
            let mut outputs = vec![heard.clone()];
            // Whisper gets the whole text at every step, and keeps what it made of the sound.
            let steps = [3, 4, 5].map(|length| -> Result<Tensor> {
                let text = model.decoder.forward(&setup.tokens(0, length)?, &heard, length == 3)?;
                model.decoder.final_linear(&text)
            });
            for step in steps {
                outputs.push(step?);
            }
            Ok(outputs)
        },
    },
    Model {
        name: "snac",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({
                "sampling_rate": 8000, "encoder_dim": 8, "encoder_rates": [2, 2], "decoder_dim": 32, "decoder_rates": [2, 2],
                "codebook_size": 16, "codebook_dim": 8, "vq_strides": [2, 1], "noise": false, "depthwise": false
            }))?;
            let model = of::snac::Model::new(&config, setup.weights())?;
            let codes =
                [4_u32, 8].map(|length| -> Result<Tensor> { Tensor::arange(0, length, &setup.device)?.unsqueeze(0) });
            let codes: Vec<Tensor> = codes.into_iter().collect::<Result<_>>()?;
            Ok(vec![model.decode(&codes.iter().collect::<Vec<_>>())?])
        },
    },
    Model {
        name: "encodec",
        ways: Ways::Plain,
        run: |setup| {
            let config = setup.config(json!({
                "target_bandwidths": [80.0], "sampling_rate": 8000, "audio_channels": 1, "normalize": false,
                "hidden_size": 16, "num_filters": 4, "num_residual_layers": 1, "upsampling_ratios": [2, 2],
                "norm_type": "WeightNorm", "kernel_size": 7, "last_kernel_size": 7, "residual_kernel_size": 3,
                "dilation_growth_rate": 2, "use_causal_conv": true, "pad_mode": "Replicate", "compress": 2,
                "num_lstm_layers": 2, "trim_right_ratio": 1.0, "codebook_size": 16, "use_conv_shortcut": false
            }))?;
            let model = of::encodec::Model::new(&config, setup.weights())?;
            let codes = Tensor::zeros((1, 4, 6), candle_core::DType::U32, &setup.device)?;
            Ok(vec![model.decode(&codes)?])
        },
    },
    // Two of the three parts of DAC: the whole has one size, which is not small.
    Model {
        name: "dac",
        ways: Ways::Plain,
        run: |setup| {
            let encoder = of::dac::Encoder::new(8, &[2, 4], 16, setup.weights().pp("encoder"))?;
            let decoder = of::dac::Decoder::new(16, 32, &[4, 2], 1, setup.weights().pp("decoder"))?;
            let heard = encoder.forward(&setup.numbers(&[1, 1, 64])?)?;
            Ok(vec![heard, decoder.forward(&setup.numbers(&[1, 16, 8])?)?])
        },
    },
];
