//! Parameter counts and FLOPs of the catalog against published and separately computed figures.

use trainyard_models::{Family, HeadKind, Image, Model, ModelSpec, OperatorKind, Pass, Sharing, find};

fn parameters(name: &str) -> u64 {
    find(name).expect("a model of the catalog").model.graph().parameters()
}

#[test]
fn gpt2_parameter_counts_equal_the_published_checkpoints() {
    // Counted from the GPT2Config of each checkpoint, Hugging Face transformers 5.23 on the meta device.
    assert_eq!(parameters("gpt2"), 124_439_808);
    assert_eq!(parameters("gpt2-medium"), 354_823_168);
    assert_eq!(parameters("gpt2-large"), 774_030_080);
    assert_eq!(parameters("gpt2-xl"), 1_557_611_200);
}

/// Counted by transformers 5.24 on the meta device from each model's `config.json`; the model cards on the Hugging Face
/// Hub show the same, but count a head that is the token table once more where it is stored.
#[test]
fn parameter_counts_of_open_models_are_those_of_transformers() {
    for (name, count) in [
        ("gemma-2-27b", 27_227_128_320),
        ("gemma-2-2b", 2_614_341_888),
        ("gpt-neox-20b", 20_554_567_680),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("llama-3.3-70b", 70_553_706_496),
        ("mistral-nemo", 12_247_782_400),
        ("mistral-small-24b", 23_572_403_200),
        ("mixtral-8x22b", 140_620_634_112),
        ("pythia-1.4b", 1_414_647_808),
        ("pythia-12b", 11_846_072_320),
        ("pythia-160m", 162_322_944),
        ("pythia-2.8b", 2_775_208_960),
        ("pythia-410m", 405_334_016),
        ("pythia-6.9b", 6_857_302_016),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-72b", 72_706_203_648),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-4b", 4_022_468_096),
        ("smollm2-1.7b", 1_711_376_384),
        ("smollm2-135m", 134_515_008),
        ("smollm2-360m", 361_821_120),
        ("tinyllama-1.1b", 1_100_048_384),
    ] {
        assert_eq!(parameters(name), count, "{name}");
    }
}

#[test]
fn gpt3_parameter_counts_equal_the_formula() {
    // 12Lh² + 13Lh + (V + S)h, and the final normalisation's 2h that the formula leaves out.
    for (name, layers, hidden) in [
        ("gpt3-125m", 12, 768),
        ("gpt3-350m", 24, 1024),
        ("gpt3-760m", 24, 1536),
        ("gpt3-1.3b", 24, 2048),
        ("gpt3-2.7b", 32, 2560),
        ("gpt3-6.7b", 32, 4096),
        ("gpt3-13b", 40, 5120),
        ("gpt3-175b", 96, 12288),
    ] {
        let formula = 12 * layers * hidden * hidden + 13 * layers * hidden + (50257 + 2048) * hidden;
        assert_eq!(parameters(name), formula + 2 * hidden, "{name}");
    }
    // And in billions, as the survey of the family prints them.
    for (name, billions) in [("gpt3-125m", 0.1252), ("gpt3-1.3b", 1.3157), ("gpt3-13b", 12.853), ("gpt3-175b", 174.60)]
    {
        let counted = parameters(name) as f64 / 1e9;
        assert!((counted / billions - 1.0).abs() < 5e-4, "{name}: {counted}");
    }
}

#[test]
fn megatron_parameter_counts_agree_with_table_1() {
    // Narayanan et al., arXiv:2104.04473, table 1, in billions to one decimal.
    for (name, billions) in [
        ("megatron-1.7b", 1.7),
        ("megatron-3.6b", 3.6),
        ("megatron-7.5b", 7.5),
        ("megatron-18.4b", 18.4),
        ("megatron-39.1b", 39.1),
        ("megatron-76.1b", 76.1),
        ("megatron-145.6b", 145.6),
        ("megatron-310.1b", 310.1),
        ("megatron-529.6b", 529.6),
        ("megatron-1008b", 1008.0),
    ] {
        let counted = parameters(name) as f64 / 1e9;
        assert!((counted - billions).abs() < 0.05_f64.max(0.01 * billions), "{name}: {counted}");
    }
}

#[test]
fn gpt2_forward_flops_equal_those_counted_by_pytorch() {
    // torch FlopCounterMode at sequence length 1024, batch 1: four digits.
    for (name, flops) in [("gpt2", 2.916e11), ("gpt2-medium", 8.27e11), ("gpt2-large", 1.775e12), ("gpt2-xl", 3.507e12)]
    {
        let counted = find(name).expect("a model of the catalog").model.graph().flops(Pass::Forward).0;
        assert!((counted / flops - 1.0).abs() < 1e-3, "{name}: {counted:e}");
    }
}

#[test]
fn transformer_parameter_counts_equal_the_published_checkpoints() {
    // Counted from the configuration of each checkpoint, Hugging Face transformers 5.23 on the meta device. BERT with
    // its pretraining heads.
    for (name, count) in [
        ("bert-base", 110_106_428),
        ("bert-large", 336_226_108),
        ("t5-small", 60_506_624),
        ("t5-base", 222_903_552),
        ("t5-large", 737_668_096),
        ("t5-3b", 2_851_598_336),
        ("t5-11b", 11_307_321_344),
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("mistral-7b", 7_241_732_096),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("mixtral-8x7b", 46_702_792_704),
    ] {
        assert_eq!(parameters(name), count, "{name}");
    }
}

#[test]
fn encoder_parameter_counts_equal_the_published_checkpoints() {
    // The same source: encoder and pooler without the heads of pretraining.
    for (name, count) in [
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("roberta-base", 124_645_632),
        ("roberta-large", 355_359_744),
    ] {
        let spec = find(name).expect("a model of the catalog").model.spec();
        let encoder = Model::try_from(ModelSpec { head: Some(HeadKind::Pooler), ..spec }).expect("a valid model");
        assert_eq!(encoder.graph().parameters(), count, "{name}");
    }
    let spec = find("vit-b-16").expect("a model of the catalog").model.spec();
    let pooled = Model::try_from(ModelSpec { head: Some(HeadKind::Pooler), classes: None, ..spec });
    assert_eq!(pooled.expect("a valid model").graph().parameters(), 86_389_248);
}

/// The forward FLOPs of the auxiliary head of Inception, which torch counts in evaluation, where it does not run: two
/// convolutions, 768 → 128 over 5 × 5 pixels and 128 → 768 with a kernel of 5 × 5, and the classifier.
const AUXILIARY_HEAD: f64 = 2.0 * (25.0 * 768.0 * 128.0 + 25.0 * 128.0 * 768.0 + 768.0 * 1000.0);

/// Name, parameters, parameter tensors, forward FLOPs of one image: torchvision modules, FLOPs by torch FlopCounterMode.
const VISION: [(&str, u64, u32, f64); 19] = [
    ("resnet18", 11_689_512, 62, 3_628_146_688.0),
    ("resnet34", 21_797_672, 110, 7_327_522_816.0),
    ("resnet50", 25_557_032, 161, 8_178_368_512.0),
    ("resnet101", 44_549_160, 314, 15_602_810_880.0),
    ("resnet152", 60_192_808, 467, 23_027_253_248.0),
    ("wide-resnet50-2", 68_883_240, 161, 22_796_042_240.0),
    ("wide-resnet101-2", 126_886_696, 314, 45_506_101_248.0),
    ("vgg16", 138_357_544, 32, 30_940_528_640.0),
    ("alexnet", 61_100_840, 16, 1_428_376_960.0),
    ("densenet121", 7_978_856, 364, 5_668_323_328.0),
    ("inception-v3", 27_161_264, 292, 11_426_432_192.0 + AUXILIARY_HEAD),
    ("mobilenet-v2", 3_504_872, 158, 601_548_544.0),
    ("mobilenet-v3-large", 5_483_032, 174, 433_179_520.0),
    ("efficientnet-b0", 5_288_548, 213, 771_629_504.0),
    ("efficientnet-b4", 19_341_616, 418, 8_787_542_048.0),
    ("convnext-base", 88_591_464, 344, 30_709_458_944.0),
    ("vit-b-16", 86_567_656, 152, 35_127_656_448.0),
    ("vit-l-16", 304_326_632, 296, 123_109_425_152.0),
    ("vit-h-14", 632_045_800, 392, 334_590_218_240.0),
];

#[test]
fn vision_counts_equal_those_of_torchvision() {
    for (name, parameters, tensors, flops) in VISION {
        let graph = find(name).expect("a model of the catalog").model.graph();
        assert_eq!(graph.parameters(), parameters, "{name}");
        assert_eq!(graph.layers().map(trainyard_models::Layer::parameter_tensors).sum::<u32>(), tensors, "{name}");
        let counted = graph.flops(Pass::Forward).0;
        assert!((counted - flops).abs() < 0.5, "{name}: {counted}");
    }
}

#[test]
fn detectors_have_the_parameters_of_torchvision() {
    // maskrcnn_resnet50_fpn and retinanet_resnet50_fpn with 91 classes. Of their tensors the two of each of 53 batch
    // normalisations are not trained, nor are the weights of the stem and of the ten convolutions of the first stage.
    let frozen = 2 * 53 + 1 + 10;
    for (name, count, all) in [("mask-rcnn-r50-fpn", 44_454_513, 201), ("retinanet-resnet50-fpn", 34_068_119, 195)] {
        let tensors = all - frozen;
        let graph = find(name).expect("a model of the catalog").model.graph();
        assert_eq!(graph.parameters(), count, "{name}");
        assert_eq!(graph.layers().map(trainyard_models::Layer::parameter_tensors).sum::<u32>(), tensors, "{name}");
    }
}

#[test]
fn networks_have_the_published_millions_of_parameters_and_multiplications() {
    // Millions of parameters and thousand millions of multiplications, as far as they are printed: tables 1 of Xie et
    // al. (ResNeXt-50) and 2 of Hu et al.; NVIDIA/DeepLearningExamples, README of both; figure 1 of Ronneberger et al.
    for (name, millions, multiplications) in [
        ("resnext50-32x4d", 25.0, Some(4.2)),
        ("resnext101-32x4d", 44.0, Some(8.0)),
        ("se-resnext101-32x4d", 49.0, Some(8.0)),
        ("unet", 31.0, None),
    ] {
        let graph = find(name).expect("a model of the catalog").model.graph();
        let counted = graph.parameters() as f64 / 1e6;
        assert!((counted - millions).abs() < 0.5, "{name}: {counted}");
        let products = graph.flops(Pass::Forward).0 / 2e9;
        assert!(multiplications.is_none_or(|published| (products - published).abs() < 0.1), "{name}: {products}");
    }
}

#[test]
fn detectors_and_segmenters_answer_in_the_published_places() {
    // Rows of the losses over this many classes, one for each place of an answer.
    let rows = |name: &str, classes: u64| -> u64 {
        let graph = find(name).expect("a model of the catalog").model.graph();
        let operators = graph.layers().flat_map(|layer| &layer.operators);
        operators
            .filter_map(|operator| match operator.kind {
                OperatorKind::CrossEntropy { rows, vocab } if vocab == classes => Some(rows),
                _ => None,
            })
            .sum()
    };
    // Liu et al., arXiv:1512.02325, section 3: 8732 default boxes.
    assert_eq!(rows("ssd300-resnet34", 81), 8732);
    assert_eq!(rows("ssd300-resnet50", 81), 8732);
    // Lin et al., arXiv:1708.02002, section 4: nine anchors at each pixel of strides 8 to 128; classes and four offsets.
    let anchors = 9 * (100 * 100 + 50 * 50 + 25 * 25 + 13 * 13 + 7 * 7);
    assert_eq!(rows("retinanet-resnext50", 1), anchors * (264 + 4));
    // Ronneberger et al., arXiv:1505.04597, figure 1: 388 × 388 of 572 × 572 pixels.
    assert_eq!(rows("unet", 2), 388 * 388);
    assert_eq!(rows("unet-medical", 2), 388 * 388);
    assert_eq!(rows("unet3d", 3), 128 * 128 * 128);
}

#[test]
fn the_outputs_of_a_residual_network_sum_to_those_of_torchvision() {
    // Elements that all leaf modules hand on, for one image; the additions are no modules.
    for (name, outputs) in
        [("resnet18", 7_477_736), ("resnet50", 32_040_424), ("resnet152", 66_360_808), ("wide-resnet50-2", 41_900_008)]
    {
        let graph = find(name).expect("a model of the catalog").model.graph();
        let operators = graph.layers().flat_map(|layer| &layer.operators);
        assert_eq!(operators.map(|operator| leaf_output(operator.kind)).sum::<u64>(), outputs, "{name}");
    }
}

fn leaf_output(kind: OperatorKind) -> u64 {
    match kind {
        OperatorKind::Image(Image::Convolution(convolution)) => {
            convolution.output.iter().product::<u64>() * convolution.outputs
        }
        OperatorKind::Image(Image::Norm { pixels, channels, .. }) => pixels * channels,
        OperatorKind::Image(Image::Pool { windows, channels, .. }) => windows * channels,
        OperatorKind::Relu { rows, width } => rows * width,
        OperatorKind::Linear { rows, outputs, .. } => rows * outputs,
        _ => 0,
    }
}

#[test]
fn wide_residual_networks_of_alpa_have_its_parameters() {
    // In millions, as its benchmark printed them: the first three to the thousand.
    for (name, millions, tolerance) in [
        ("alpa-wide-resnet-250m", 254.123, 1e-5),
        ("alpa-wide-resnet-500m", 495.046, 1e-5),
        ("alpa-wide-resnet-1b", 1005.653, 1e-5),
        ("alpa-wide-resnet-2b", 1965.0, 1e-3),
    ] {
        let counted = parameters(name) as f64 / 1e6;
        assert!((counted / millions - 1.0).abs() < tolerance, "{name}: {counted}");
    }
}

#[test]
fn experts_of_alpa_follow_its_formulas() {
    // alpa-projects/alpa, benchmark/alpa/util.py, compute_moe_parameter_count with feed-forward parts eight times as
    // wide as the model, which counts a bias for each product and one token table for two.
    for (name, billions) in [
        ("alpa-moe-380m", 0.3835),
        ("alpa-moe-690m", 0.6857),
        ("alpa-moe-1.3b", 1.3468),
        ("alpa-moe-2.4b", 2.383),
        ("alpa-moe-10b", 10.1696),
        ("alpa-moe-70b", 70.4152),
    ] {
        let head = 32_000 * find(name).expect("a model of the catalog").model.spec().hidden.expect("a width");
        let counted = (parameters(name) - head) as f64 / 1e9;
        assert!((counted / billions - 1.0).abs() < 4e-3, "{name}: {counted}");
    }
    // compute_moe_tflops: forward of blocks with experts, with routing by products with masks. A token's mask
    // holds all places of its group, whether the sample is as long as the group or, as here, half of it.
    let graph = find("alpa-moe-380m").expect("a model of the catalog").model.graph();
    let (s, h, e, g) = (1024.0, 768.0, 8.0, 2048.0);
    let attention = s * h * h * 8.0 + 4.0 * s * s * h;
    let routed = attention + 2.0 * s * h * h * 8.0 * 2.0 * 2.0 + 2.0 * s * h * e + 2.0 * s * h * 2.0 * g * 2.0;
    let block = graph.layers().find(|layer| layer.exchanged_elements > 0).expect("a block with experts");
    let counted = block.flops(Pass::Forward).0;
    assert!((counted / routed - 1.0).abs() < 1e-9, "{counted:e} against {routed:e}");
}

#[test]
fn a_token_of_mixtral_uses_the_published_part_of_its_parameters() {
    // Jiang et al., arXiv:2401.04088, section 2.1: 13 of 47 billion parameters are active.
    let graph = find("mixtral-8x7b").expect("a model of the catalog").model.graph();
    let experts: u64 = graph.layers().map(|layer| layer.expert_parameters(Sharing::WHOLE)).sum();
    let active = graph.parameters() - experts + experts / 4;
    assert!((12.8e9..13.0e9).contains(&(active as f64)), "{active}");
}

#[test]
fn llama_forward_flops_are_twice_its_products() {
    // Two operations for each weight of a product and token, and 4·s²·h for scores and values of each block.
    let entry = find("llama-2-7b").expect("a model of the catalog");
    let (l, h, s, v) = (32.0, 4096.0, 4096.0, 32000.0);
    let norms = (2.0 * l + 1.0) * h;
    let products = entry.model.graph().parameters() as f64 - v * h - norms;
    let formula = 2.0 * s * products + l * 4.0 * s * s * h;
    let counted = entry.model.graph().flops(Pass::Forward).0;
    assert!((counted / formula - 1.0).abs() < 1e-12, "{counted:e} against {formula:e}");
    assert_eq!(entry.model.family(), Family::Llama);
}

#[test]
fn training_flops_follow_the_published_formula() {
    // Narayanan et al., equation 3 (with recomputation 96BslH²(1 + s/6h + V/16lh)), without the recomputed forward of
    // the blocks: three quarters of the block terms, and the head's share unchanged.
    let model = &find("megatron-18.4b").expect("a model of the catalog").model;
    let (l, h, s, v) = (40.0, 6144.0, 2048.0, 51200.0);
    let formula = 72.0 * s * l * h * h * (1.0 + s / (6.0 * h)) + 6.0 * s * h * v;
    let counted = model.graph().training_flops().0;
    assert!((counted / formula - 1.0).abs() < 1e-6, "{counted:e} against {formula:e}");
}

#[test]
fn every_entry_is_named_like_its_file_and_says_its_source() {
    for entry in trainyard_models::catalog() {
        assert!(!entry.source.is_empty());
        assert!(find(entry.model.name()).is_ok());
    }
}

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    let error = find("gpt2-xxl").expect_err("no such model");
    assert!(error.hint().contains("gpt2-xl"), "{error}");
}
