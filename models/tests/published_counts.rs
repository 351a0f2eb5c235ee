//! Parameter counts and FLOPs of the catalog against published and separately computed figures.

use trainyard_models::{Pass, find};

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
    assert!(error.hint().is_some_and(|hint| hint.contains("gpt2-xl")), "{error}");
}
