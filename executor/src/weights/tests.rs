use super::*;
use half::{bf16, f16};
use safetensors::tensor::TensorView;
use trainyard_models::{Family, ModelSpec, RotaryScaling};

fn spec() -> ModelSpec {
    ModelSpec {
        layers: Some(1),
        hidden: Some(8),
        ffn: Some(32),
        heads: Some(2),
        vocab: Some(16),
        seq_len: Some(4),
        rotary_base: Some(2000.0),
        ..ModelSpec::new("tiny", Family::Llama)
    }
}

/// Every tensor of the model in files, each with its number of bytes in `format`.
fn tensors(network: &Network, format: Dtype) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let bytes = |parameter: &Parameter| {
        let values = (0..parameter.elements()).map(|index| index as f32 / 4.0 - 3.0);
        values.flat_map(|value| match format {
            Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Dtype::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
            _ => value.to_le_bytes().to_vec(),
        })
    };
    let parameters = network.keys().map(|key| network.parameter(key));
    parameters.map(|p| (p.name.clone(), (p.stored_shape(), bytes(p).collect()))).collect()
}

fn write(path: &Path, tensors: &BTreeMap<String, (Vec<usize>, Vec<u8>)>, format: Dtype) {
    let views = tensors.iter().map(|(name, (shape, bytes))| {
        (name.clone(), TensorView::new(format, shape.clone(), bytes).expect("as many bytes as elements"))
    });
    let file = safetensors::serialize(views.collect::<Vec<_>>(), None).expect("it is serialised");
    std::fs::write(path, file).expect("the folder is writable");
}

struct Fixture {
    folder: tempfile::TempDir,
    model: Model,
    network: Network,
}

impl Fixture {
    fn new() -> Self {
        Self::of(spec())
    }

    fn of(spec: ModelSpec) -> Self {
        let model = Model::try_from(spec).expect("valid");
        let network = Network::new(&model).expect("it is built");
        Self { folder: tempfile::tempdir().expect("a temporary folder"), model, network }
    }

    fn find(&self) -> Result<FirstWeights, WeightError> {
        FirstWeights::find(self.folder.path(), &self.model, &self.network)
    }

    fn write(&self, name: &str, tensors: &BTreeMap<String, (Vec<usize>, Vec<u8>)>, format: Dtype) {
        write(&self.folder.path().join(name), tensors, format);
    }

    fn message(&self) -> String {
        self.find().expect_err("they do not fit").to_string()
    }
}

#[test]
fn all_formats_give_the_same_values_transposed_to_how_they_compute() {
    let fixture = Fixture::new();
    for format in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        fixture.write(SINGLE[0], &tensors(&fixture.network, format), format);
        let weights = fixture.find().expect("they fit");
        let is_query = |key: &ParameterKey| fixture.network.parameter(*key).name.ends_with("gate_proj.weight");
        let key = fixture.network.keys().find(is_query).expect("there is one");
        let parameter = fixture.network.parameter(key);
        let values = weights.values(key, parameter).expect("they are there");
        // (8, 32) as it computes, (32, 8) in the file.
        assert_eq!(parameter.shape, [8, 32]);
        let small = if format == Dtype::BF16 { 16 } else { 256 };
        for index in 0..small {
            let (row, column) = (index % 8, index / 8);
            assert_eq!(values[row * 32 + column], index as f32 / 4.0 - 3.0);
        }
    }
}

#[test]
fn several_files_are_read_by_their_index() {
    let fixture = Fixture::new();
    let mut first = tensors(&fixture.network, Dtype::F32);
    let second = first.split_off("model.layers.0.self_attn");
    fixture.write("a.safetensors", &first, Dtype::F32);
    fixture.write("b.safetensors", &second, Dtype::F32);
    let names = first.keys().map(|name| (name, "a.safetensors"));
    let map: BTreeMap<_, _> = names.chain(second.keys().map(|name| (name, "b.safetensors"))).collect();
    let index = serde_json::json!({ "weight_map": map });
    let path = fixture.folder.path().join(INDEX[0]);
    std::fs::write(&path, index.to_string()).expect("writable");
    assert!(fixture.find().is_ok());
    std::fs::write(&path, r#"{"weight_map": {"a": "../a.safetensors"}}"#).expect("writable");
    assert!(fixture.message().contains("`../a.safetensors` is not the name of a file beside it"));
}

#[test]
fn what_does_not_fit_is_listed() {
    let fixture = Fixture::new();
    let mut all = tensors(&fixture.network, Dtype::F32);
    let norm = all.remove("model.norm.weight").expect("it is one");
    all.insert("model.norm.bias".into(), norm);
    all.insert("lm_head.weight".into(), (vec![2, 8], vec![0; 64]));
    fixture.write(SINGLE[0], &all, Dtype::F32);
    let message = fixture.message();
    for part in [
        "1 tensor is missing: `model.norm.weight`",
        "1 tensor is not the model's: `model.norm.bias`",
        "1 tensor is of another shape: `lm_head.weight` is [2, 8] and not [16, 8]",
    ] {
        assert!(message.contains(part), "{message}");
    }
    fixture.write(SINGLE[0], &BTreeMap::from([("x".into(), (vec![1], vec![0; 4]))]), Dtype::F32);
    let message = fixture.message();
    assert!(message.contains("12 tensors are missing") && message.contains(", …"), "{message}");
}

#[test]
fn tensors_that_are_no_weights_are_passed_over() {
    let fixture = Fixture::new();
    let mut all = tensors(&fixture.network, Dtype::F32);
    all.insert("model.layers.0.self_attn.rotary_emb.inv_freq".into(), (vec![1], vec![0; 4]));
    all.insert("bert.pooler.dense.bias".into(), (vec![1], vec![0; 4]));
    fixture.write(SINGLE[0], &all, Dtype::F32);
    let weights = fixture.find().expect("they fit");
    assert_eq!(weights.other_heads(), ["bert.pooler.dense.bias"], "a buffer is nothing to tell of");
}

#[test]
fn files_that_are_something_else_say_so() {
    let fixture = Fixture::new();
    assert!(matches!(fixture.find(), Err(WeightError::NoWeights { .. })));
    let path = fixture.folder.path().join(SINGLE[0]);
    for (bytes, problem) in
        [(&b"short"[..], "shorter than its first field"), (&[255; 40][..], "ends within its header")]
    {
        std::fs::write(&path, bytes).expect("writable");
        assert!(fixture.message().contains(problem), "{}", fixture.message());
    }
    fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::F32);
    let whole = std::fs::read(&path).expect("just written");
    std::fs::write(&path, &whole[..whole.len() - 3]).expect("writable");
    assert!(fixture.message().contains("its header tells of"), "{}", fixture.message());
    fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::I32);
    assert!(fixture.message().contains("elements of type I32"), "{}", fixture.message());
    let missing = FirstWeights::find(Path::new("/nowhere/x"), &fixture.model, &fixture.network);
    assert!(matches!(missing, Err(WeightError::Unreadable { .. })));
}

#[test]
fn a_configuration_that_computes_otherwise_is_refused() {
    let fixture = Fixture::new();
    fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::F32);
    let path = fixture.folder.path().join(CONFIGURATION);
    let check = |configuration: serde_json::Value| {
        std::fs::write(&path, configuration.to_string()).expect("writable");
        fixture.find().err().map(|error| error.to_string())
    };
    assert_eq!(check(serde_json::json!({ "rms_norm_eps": 1e-5, "rope_theta": 2000 })), None);
    for (configuration, part) in [
        (serde_json::json!({ "rms_norm_eps": 1e-6 }), "`rms_norm_eps` 1e-6"),
        (serde_json::json!({ "rope_parameters": { "rope_theta": 1e4 } }), "`rope_theta` 10000.0"),
        (serde_json::json!({ "rope_scaling": { "rope_type": "llama3" } }), "`rope_type` \"llama3\""),
        (serde_json::json!({ "num_attention_heads": 4 }), "`num_attention_heads` 4"),
    ] {
        let message = check(configuration).expect("it is refused");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn scalings_of_rotary_positions_are_compared_with_what_is_left_out_filled_in() {
    let scaling = RotaryScaling {
        kind: RotaryScaling::LLAMA3.into(),
        factor: Some(8.0),
        low_frequency_factor: None,
        high_frequency_factor: None,
        original_tokens: None,
    };
    let fixture = Fixture::of(ModelSpec { rotary_scaling: Some(scaling), ..spec() });
    fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::F32);
    let other =
        |rotation: serde_json::Value| other_field(&fixture, &serde_json::json!({ "rope_parameters": rotation }));
    let theirs = |rest: serde_json::Value| {
        let mut rotation = serde_json::json!({ "rope_theta": 2000, "rope_type": "llama3", "factor": 8 });
        rotation.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
        other(rotation)
    };
    assert_eq!(theirs(serde_json::json!({})), None);
    assert_eq!(theirs(serde_json::json!({ "low_freq_factor": 1, "original_max_position_embeddings": 8192 })), None);
    for field in ["factor", "high_freq_factor", "original_max_position_embeddings"] {
        assert_eq!(theirs(serde_json::json!({ field: 16 })), Some(field));
    }
    assert_eq!(other(serde_json::json!({ "rope_theta": 2000, "rope_type": "llama3" })), Some("factor"));
    assert_eq!(other(serde_json::json!({ "rope_theta": 2000, "rope_type": "default" })), Some("rope_type"));
}

/// The field in which a configuration computes otherwise than the model.
fn other_field(fixture: &Fixture, configuration: &Value) -> Option<&'static str> {
    let path = fixture.folder.path().join(CONFIGURATION);
    std::fs::write(path, configuration.to_string()).expect("writable");
    match fixture.find() {
        Ok(_) => None,
        Err(WeightError::OtherComputation { field, .. }) => Some(field),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_field_of_gpt_neox_and_gemma_2_that_changes_what_they_compute_is_compared() {
    let golden = |case: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(case).join(CONFIGURATION);
        let text = std::fs::read_to_string(path).expect("it is in the repository");
        serde_json::from_str::<Value>(&text).expect("transformers wrote it")
    };
    for (case, changes) in [
        (
            "gpt-neox",
            vec![
                ("use_parallel_residual", false.into(), "use_parallel_residual"),
                ("rope_parameters", serde_json::json!({ "partial_rotary_factor": 0.5 }), "rotary_pct"),
                ("rope_parameters", serde_json::json!({ "partial_rotary_factor": 0.25 }), "rotary_emb_base"),
                ("layer_norm_eps", 1e-6.into(), "layer_norm_eps"),
                ("hidden_act", "gelu_fast".into(), "hidden_act"),
                ("attention_bias", false.into(), "attention_bias"),
                ("tie_word_embeddings", true.into(), TIE),
            ],
        ),
        (
            "gemma2",
            vec![
                ("attn_logit_softcapping", Value::Null, "attn_logit_softcapping"),
                ("final_logit_softcapping", 30.into(), "final_logit_softcapping"),
                ("query_pre_attn_scalar", 12.into(), "query_pre_attn_scalar"),
                ("layer_types", Value::Null, ""),
                ("layer_types", serde_json::json!(["full_attention", "full_attention", "full_attention"]), LAYER_TYPES),
                ("sliding_window", 6.into(), WINDOW),
                ("hidden_activation", "silu".into(), "hidden_activation"),
                ("rms_norm_eps", 1e-5.into(), "rms_norm_eps"),
                ("rope_parameters", serde_json::json!({ "rope_theta": 5e4 }), "rope_theta"),
                ("tie_word_embeddings", false.into(), TIE),
            ],
        ),
    ] {
        let configuration = golden(case);
        let spec = from_hugging_face(&configuration.to_string(), case).expect("it is read");
        let fixture = Fixture::of(spec);
        fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::F32);
        assert_eq!(other_field(&fixture, &configuration), None, "{case}");
        for (field, value, refused) in changes {
            let mut changed = configuration.clone();
            changed[field] = value;
            assert_eq!(other_field(&fixture, &changed).unwrap_or_default(), refused, "{case}, {field}");
        }
    }
}

#[test]
fn a_window_narrower_than_a_sample_is_no_other_and_not_none() {
    let mistral = |window: Value| serde_json::json!({ "model_type": "mistral", "sliding_window": window });
    let absent = serde_json::json!({ "model_type": "mistral" });
    for (own, found, is_same) in [
        (None, mistral(3.into()), false),
        (None, mistral(4.into()), true),
        (None, mistral(Value::Null), true),
        // Llama itself looks at no such field.
        (None, serde_json::json!({ "model_type": "llama", "sliding_window": 3 }), true),
        (Some(3), mistral(3.into()), true),
        (Some(3), mistral(2.into()), false),
        (Some(3), mistral(Value::Null), false),
        (Some(3), absent.clone(), false),
        (Some(5), absent, true),
    ] {
        // Samples have four tokens.
        let fixture = Fixture::of(ModelSpec { window: own, ..spec() });
        fixture.write(SINGLE[0], &tensors(&fixture.network, Dtype::F32), Dtype::F32);
        let expected = if is_same { None } else { Some(WINDOW) };
        assert_eq!(other_field(&fixture, &found), expected, "{own:?} and {found}");
    }
}

#[test]
fn a_head_of_its_own_is_not_left_out_for_the_token_table() {
    for tied in [true, false] {
        let fixture = Fixture::of(ModelSpec { tied_head: Some(tied), ..spec() });
        let mut all = tensors(&fixture.network, Dtype::F32);
        all.insert("lm_head.weight".into(), (vec![16, 8], vec![0; 4 * 16 * 8]));
        fixture.write(SINGLE[0], &all, Dtype::F32);
        let other = |is_other: bool| is_other.then_some(TIE);
        assert_eq!(other_field(&fixture, &serde_json::json!({ "tie_word_embeddings": true })), other(!tied));
        assert_eq!(other_field(&fixture, &serde_json::json!({ "tie_word_embeddings": false })), other(tied));
        // Llama's class has a head of its own.
        assert_eq!(other_field(&fixture, &serde_json::json!({ "tie_word_embeddings": null })), other(tied));
        assert_eq!(other_field(&fixture, &serde_json::json!({})), other(tied));
    }
}

#[test]
fn queries_keys_and_values_of_torchvision_are_thirds_of_one_tensor() {
    let fixture = Fixture::of(ModelSpec {
        layers: Some(1),
        hidden: Some(8),
        heads: Some(2),
        image_size: Some(8),
        patch_size: Some(4),
        classes: Some(3),
        ..ModelSpec::new("tiny", Family::Vit)
    });
    let mut all = BTreeMap::new();
    for (name, tensor) in tensors(&fixture.network, Dtype::F32) {
        let Some((packed, number)) = names::packed(&name) else {
            all.insert(names::in_files(&name).pop().expect("torchvision has it"), tensor);
            continue;
        };
        let (mut shape, bytes) = tensor;
        shape[0] *= 3;
        let (_, whole) = all.entry(packed).or_insert_with(|| (shape, vec![0; 3 * bytes.len()]));
        whole[number * bytes.len()..(number + 1) * bytes.len()].copy_from_slice(&bytes);
    }
    // Each of the three has numbers of its own.
    let joined = "encoder.layers.encoder_layer_0.self_attention.in_proj_bias";
    all.get_mut(joined).expect("it is one").1[2 * 32..].fill(0);
    fixture.write(SINGLE[0], &all, Dtype::F32);
    let weights = fixture.find().expect("they fit");
    let values = |end: &str| {
        let key = fixture.network.keys().find(|key| fixture.network.parameter(*key).name.ends_with(end));
        let key = key.expect("it is a parameter");
        weights.values(key, fixture.network.parameter(key)).expect("they are there")
    };
    let numbers: Vec<f32> = (0..8).map(|index| index as f32 / 4.0 - 3.0).collect();
    assert_eq!(values("attention.key.bias"), numbers);
    assert_eq!(values("attention.value.bias"), vec![0.0; 8]);
    assert_eq!(values("attention.value.weight").len(), 64);
    all.get_mut(joined).expect("it is one").0 = vec![8, 3];
    fixture.write(SINGLE[0], &all, Dtype::F32);
    assert!(fixture.message().contains("of another shape"), "{}", fixture.message());
}

#[test]
fn the_configuration_beside_weights_says_what_is_dropped_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(dropout_beside(folder.path()), Dropout::default());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/gpt2/config.json");
    let text = std::fs::read_to_string(golden).expect("it is in the repository");
    let text = text.replace("\"attn_pdrop\": 0.0", "\"attn_pdrop\": 0.1");
    std::fs::write(folder.path().join(CONFIGURATION), text).expect("writable");
    let expected = Dropout { residual: Some(0.0), attention: Some(0.1), embedding: Some(0.0) };
    assert_eq!(dropout_beside(folder.path()), expected);
}
