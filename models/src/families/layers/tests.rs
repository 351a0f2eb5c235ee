use super::*;
use crate::Family;
use crate::operator::{AttentionKernel, OperatorKind, Pass, Sharing};
use crate::{LayerRole, Model, find};

const IMAGE: &str = "input = { channels = 3, height = 32, width = 48 }";

/// Returns a model of an input and layers, each given by its operators.
fn model(input: &str, layers: &[&str]) -> Result<Model, String> {
    let head = format!("name = \"own\"\nfamily = \"layers\"\n{input}\n");
    let layers = layers.iter().enumerate();
    let layers = layers.map(|(index, operators)| format!("[[layer]]\nname = \"layer {index}\"\n{operators}\n"));
    let text: String = std::iter::once(head).chain(layers).collect();
    let spec: ModelSpec = toml::from_str(&text).map_err(|error| error.to_string())?;
    Model::try_from(spec).map_err(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
}

fn graph(input: &str, layers: &[&str]) -> OperatorGraph {
    model(input, layers).expect("a valid model").graph()
}

const LOSS: &str = r#"operators = ["global_pool", { linear = 10 }, "cross_entropy"]"#;

/// What is said of an image model whose first layer has these operators.
fn complaint(operators: &str) -> String {
    model(IMAGE, &[&format!("operators = [{operators}]"), LOSS]).expect_err("refused")
}

#[test]
fn whatever_is_wrong_is_said_with_its_place_and_value() {
    for (operators, parts) in [
        (r#""rellu""#, vec!["no operator is called `rellu`", "did you mean `relu`?"]),
        (r#""conv""#, vec!["`conv` needs a value"]),
        ("{ cnov = 64 }", vec!["no operator is called `cnov`", "did you mean `conv`?"]),
        ("{ conv = 64, kernl = 3 }", vec!["operator `conv`", "unknown field `kernl`", "`kernel`"]),
        (r#"{ conv = 64, kernel = "3" }"#, vec!["operator `conv`", "`kernel = \"3\"`", "a whole number, or a list"]),
        (r#"{ conv = 64, padding = "full" }"#, vec!["`padding = \"full\"`", "\"same\", \"valid\""]),
        ("{ conv = -1 }", vec!["operator `conv`", "`conv = -1`"]),
        ("{ conv = 64, linear = 64 }", vec!["`conv` and `linear` are two operators"]),
        ("{ depthwise = 3, groups = 2 }", vec!["operator `depthwise`", "unknown field `groups`"]),
        ("{ conv = 0 }", vec!["layer `layer 0`, operator 1 (`conv`)", "`conv` is 0, but it must be from 1 to 131072"]),
        ("{ conv = 8, kernel = [3, 3, 3] }", vec!["`kernel` has 3 numbers", "3 channels of 32 × 48", "2 dimensions"]),
        (r#"{ conv = 8, kernel = 40, padding = "valid" }"#, vec!["window of 40 pixels", "32 and 0 of padding", "same"]),
        ("{ conv = 8, kernel = 3, padding = 3 }", vec!["window of 3 pixels", "3 of padding"]),
        ("{ conv = 8, groups = 2 }", vec!["`groups` is 2, but it must divide the 3 channels", "groups 1 divides"]),
        ("{ add = [[{ conv = 8 }], []] }", vec!["8 channels of 32 × 48 and 3 channels of 32 × 48", "equal shapes"]),
        ("{ concat = [[{ max_pool = 2 }], []] }", vec!["3 channels of 16 × 24", "crop = true"]),
        ("{ add = [[]] }", vec!["1 branches", "an empty branch"]),
        (r#"{ add = [[{ conv = 3 }, "rellu"], []] }"#, vec!["in `add`", "no operator is called `rellu`"]),
        ("{ add = [[{ conv = 3, groups = 2 }], []] }", vec!["operator 1 (`add`), branch 1, operator 1 (`conv`)"]),
        (r#"{ concat = "x" }"#, vec!["nothing before is saved as `x`", "save"]),
        (r#"{ save = "x" }, { add = "y" }"#, vec!["nothing before is saved as `y`", "saved are x"]),
        (r#"{ save = "x" }"#, vec!["`x` is saved, but never used"]),
        (r#""cross_entropy", "relu""#, vec!["operator 2 (`relu`)", "nothing can follow a loss"]),
        (r#"{ side = ["relu"] }"#, vec!["operator 1 (`side`)", "does not end in a loss", "cross_entropy"]),
        ("{ embedding = 10, width = 4 }", vec!["looks up tokens, but gets 3 channels of 32 × 48"]),
        (
            r#""flatten", { conv = 8 }"#,
            vec!["operator 2 (`conv`)", "an image, a volume or a sequence", "4608 features"],
        ),
        ("{ attention = 2 }", vec!["`attention` is 2, but it must divide the 3 channels"]),
        ("{ attention = 3, window = 0 }", vec!["`window` is 0, but it must be from 1 to 256"]),
        ("{ attention = 3, relative_bias = 0 }", vec!["`relative_bias` is 0"]),
        ("{ class_tokens = 0 }", vec!["`class_tokens` is 0"]),
        (r#""flatten", { class_tokens = 1 }"#, vec!["it needs pixels or tokens, but gets 4608 features"]),
        ("{ space_to_depth = [2] }", vec!["`space_to_depth` has 1 numbers", "2 dimensions"]),
        ("{ conv = 131072 }, { conv = 131072, kernel = 255 }", vec!["more than 68719476736 weights"]),
        ("{ upsample = 256 }, { upsample = 256 }", vec!["operator 2 (`upsample`)", "more than 68719476736 elements"]),
        ("{ cross_entropy = 2 }", vec!["`cross_entropy` is 2, but it must divide the 3 channels"]),
        ("{ roi_align = 7, regions = 0 }", vec!["`regions` is 0"]),
        ("", vec!["layer `layer 0`: there are no operators"]),
    ] {
        let said = complaint(operators);
        for part in parts {
            assert!(said.contains(part), "{operators}: `{part}` is not in: {said}");
        }
    }
}

#[test]
fn what_is_wrong_with_the_whole_is_said_too() {
    let relu = "operators = [\"relu\"]";
    for (input, layers, part) in [
        ("input = { channels = 3 }", vec![relu, LOSS], "the fields channels do not describe a sample"),
        ("input = { height = 3, tokens = 4 }", vec![relu, LOSS], "the fields height, tokens"),
        ("input = { features = 0 }", vec![relu, LOSS], "`features` is 0"),
        ("", vec![relu, LOSS], "`input` is missing: models of family `layers` need it"),
        (IMAGE, vec![LOSS], "there are 1 layers"),
        (IMAGE, vec![relu, relu], "layer `layer 1`: it does not end in a loss"),
        (IMAGE, vec![relu, "repeat = 0\noperators = [\"relu\"]", LOSS], "`repeat` is 0"),
        (IMAGE, vec!["repeat = 10000\noperators = [\"relu\"]", LOSS], "more than 10000 layers"),
        (IMAGE, vec![LOSS, relu], "nothing can follow a loss"),
        ("input = { tokens = 8 }", vec![relu, LOSS], "tokens, which need to be looked up first"),
        ("input = { tokens = 8 }\nimage_size = 8", vec![relu, LOSS], "`image_size` is set, but it is no image"),
        (&format!("{IMAGE}\nseq_len = 8"), vec![relu, LOSS], "`seq_len` is set, but it has no tokens"),
        (&format!("{IMAGE}\nattention = \"flash\""), vec![relu, LOSS], "`attention` is set, but no operator"),
        (&format!("{IMAGE}\nhidden = 8"), vec![relu, LOSS], "has no field `hidden`"),
    ] {
        let said = model(input, &layers).expect_err("refused");
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }
}

#[test]
fn sides_within_sides_are_counted_before_they_fill_the_memory() {
    let of = ["\"x\""; 10].join(", ");
    let side = (0..12)
        .fold("\"relu\"".to_owned(), |inside, _| format!("{{ side = [{inside}, \"cross_entropy\"], of = [{of}] }}"));
    let said = complaint(&format!("{{ save = \"x\" }}, {side}"));
    assert!(said.contains("more than 262144 operators; those of a repeated layer count each time"), "{said}");
}

/// ResNet-18 in the language: the family is its oracle.
#[test]
fn a_residual_network_that_is_written_out_is_the_one_of_the_family() {
    let mut layers = vec![
        r#"operators = [{ conv = 64, kernel = 7, stride = 2, norm = "batch", activation = "relu" },
           { max_pool = 3, stride = 2 }]"#
            .to_owned(),
    ];
    for (stage, channels) in [64, 128, 256, 512].into_iter().enumerate() {
        for block in 0..2 {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let shortcut = match stride {
                1 => String::new(),
                _ => format!("{{ conv = {channels}, stride = 2, norm = \"batch\" }}"),
            };
            layers.push(format!(
                "operators = [{{ add = [[
                   {{ conv = {channels}, kernel = 3, stride = {stride}, norm = \"batch\", activation = \"relu\" }},
                   {{ conv = {channels}, kernel = 3, norm = \"batch\" }},
                 ], [{shortcut}]] }}, \"relu\"]"
            ));
        }
    }
    layers.push(r#"operators = ["global_pool", { linear = 1000 }, "cross_entropy"]"#.into());
    let layers: Vec<&str> = layers.iter().map(String::as_str).collect();
    let written = graph("input = { channels = 3, height = 224, width = 224 }", &layers);
    let family = find("resnet18").expect("in the catalog").model.graph();
    assert_eq!(written.len(), family.len());
    for (index, (own, known)) in written.layers().zip(family.layers()).enumerate() {
        assert_eq!((own.role, own.output_elements), (known.role, known.output_elements), "{index}");
        assert_eq!(own.parameters(Sharing::WHOLE), known.parameters(Sharing::WHOLE), "{index}");
        assert_eq!(own.stored(3, Sharing::WHOLE), known.stored(3, Sharing::WHOLE), "{index}");
        for pass in [Pass::Forward, Pass::Backward] {
            assert_eq!(own.flops(pass), known.flops(pass), "{index}");
            let sum = |count: &dyn Fn(OperatorKind) -> u64, layer: &crate::Layer| -> u64 {
                layer.operators.iter().map(|operator| count(operator.kind)).sum()
            };
            let traffic = |kind: OperatorKind| kind.traffic(pass).bytes(2).0;
            let kernels = |kind: OperatorKind| u64::from(kind.kernels(pass));
            assert_eq!(sum(&traffic, own), sum(&traffic, known), "{index}");
            assert_eq!(sum(&kernels, own), sum(&kernels, known), "{index}");
        }
    }
}

#[test]
fn a_transformer_block_that_is_written_out_is_the_one_of_the_family() {
    let block = r#"operators = [
        { add = [["layer_norm", { attention = 16, causal = true, dropout = true }], []], dropout = true },
        { add = [["layer_norm", { linear = 4096, activation = "gelu" }, { linear = 1024 }], []], dropout = true },
    ]"#;
    let head = r#"operators = ["layer_norm", { linear = 50257, bias = false }, "cross_entropy"]"#;
    let table = "operators = [{ embedding = 50257, width = 1024, positions = 1024, dropout = true }]";
    let written = graph("input = { tokens = 1024 }", &[table, block, head]);
    let family = find("gpt2-medium").expect("in the catalog").model.graph();
    for index in [0, 1] {
        let (own, known) = (written.layer(index), family.layer(index));
        assert_eq!(own.parameters(Sharing::WHOLE), known.parameters(Sharing::WHOLE));
        assert_eq!(own.stored(2, Sharing::WHOLE), known.stored(2, Sharing::WHOLE));
        assert_eq!(own.flops(Pass::Backward), known.flops(Pass::Backward));
        assert_eq!((own.output_elements, own.context_elements), (known.output_elements, known.context_elements));
    }
    assert_eq!(
        model("input = { tokens = 1024 }", &[table, block, head]).expect("valid").tokens_per_sample(),
        Some(1024)
    );
}

#[test]
fn windows_are_sequences_of_their_own() {
    let attention = |operators: &str| {
        let graph = graph(IMAGE, &[&format!("operators = [{{ conv = 8 }}, {operators}]"), LOSS]);
        let layer = graph.layer(0).clone();
        let found = layer.operators.iter().find_map(|operator| match operator.kind {
            OperatorKind::Attention(attention) => Some((attention.samples, attention.queries)),
            _ => None,
        });
        (found.expect("there is one"), layer.output_elements)
    };
    let elements = 8 * 32 * 48;
    assert_eq!(attention("{ attention = 2 }"), ((1, 32 * 48), elements));
    assert_eq!(attention("{ attention = 2, window = 8 }"), ((4 * 6, 64), elements));
    // Five windows of 7 go over 32 pixels, seven over 48; what they make is as large as the map.
    assert_eq!(attention("{ attention = 2, window = 7 }"), ((5 * 7, 49), elements));
}

#[test]
fn pixels_become_tokens_behind_those_of_the_class() {
    let layer = |operators: &str| {
        let graph = graph(IMAGE, &[&format!("operators = [{operators}]"), LOSS]);
        (graph.layer(0).parameters(Sharing::WHOLE), graph.layer(0).output_elements)
    };
    assert_eq!(layer("{ class_tokens = 2 }"), ((2 + 2 + 32 * 48) * 3, (2 + 32 * 48) * 3));
    assert_eq!(layer("{ class_tokens = 2, positions = false }"), (2 * 3, (2 + 32 * 48) * 3));
    assert_eq!(layer(r#"{ class_tokens = 2 }, "first_token""#).1, 3);
    // Three pixels of 32 are side by side with one of the border.
    assert_eq!(layer("{ space_to_depth = [3, 4] }"), (0, 11 * 12 * 12 * 3));
}

#[test]
fn shapes_are_inferred_again_for_each_repetition_and_equal_layers_are_held_once() {
    let growing = "repeat = 3\noperators = [{ concat = [[], [{ conv = 5, kernel = 3 }]] }]";
    let steady = "repeat = 3\noperators = [{ conv = 18, kernel = 3 }]";
    let graph = graph(IMAGE, &[growing, steady, LOSS]);
    assert_eq!(graph.order(), [0, 1, 2, 3, 3, 3, 4]);
    let handed: Vec<u64> = graph.layers().map(|layer| layer.output_elements / (32 * 48)).collect();
    assert_eq!(handed, [8, 13, 18, 18, 18, 18, 0]);
    let roles: Vec<LayerRole> = graph.layers().map(|layer| layer.role).collect();
    assert_eq!((roles[0], roles[1], roles[6]), (LayerRole::Input, LayerRole::Block, LayerRole::Output));
}

#[test]
fn what_is_saved_for_later_goes_past_the_layers_between() {
    let graph = graph(
        IMAGE,
        &[
            r#"operators = [{ conv = 4 }, { save = "skip" }, { max_pool = 2 }]"#,
            "operators = [{ conv = 8 }]",
            r#"operators = [{ transposed_conv = 6, kernel = 2, stride = 2 }, { concat = "skip" }]"#,
            LOSS,
        ],
    );
    let skip = 4 * 32 * 48;
    let handed: Vec<u64> = graph.layers().map(|layer| layer.output_elements).collect();
    assert_eq!(handed, [4 * 16 * 24 + skip, 8 * 16 * 24 + skip, 10 * 32 * 48, 1]);
    // A map that is handed on anyway goes once.
    let same =
        self::graph(IMAGE, &[r#"operators = [{ conv = 4 }, { save = "x" }]"#, r#"operators = [{ add = "x" }]"#, LOSS]);
    assert_eq!(same.layer(0).output_elements, skip);
}

#[test]
fn a_side_over_several_maps_has_one_set_of_weights() {
    let pyramid = r#"operators = [{ conv = 8 }, { save = "a" }, { max_pool = 2 }, { save = "b" }]"#;
    let with = |of: &str| {
        let head =
            format!("operators = [{{ side = [{{ conv = 6, kernel = 3 }}, {{ cross_entropy = 3 }}], of = [{of}] }}]");
        let both = r#"operators = [{ load = "a" }, { load = "b" }, "relu"]"#;
        graph(IMAGE, &[pyramid, both, &head])
    };
    let (one, two) = (with("\"a\""), with("\"a\", \"b\""));
    let weights = 8 * 9 * 6 + 6;
    assert_eq!(one.layer(2).parameters(Sharing::WHOLE), weights);
    assert_eq!(two.layer(2).parameters(Sharing::WHOLE), weights);
    assert_eq!(two.layer(2).parameter_tensors(), 2);
    assert_eq!(two.layer(2).flops(Pass::Forward), one.layer(2).flops(Pass::Forward) * 1.25);
}

#[test]
fn a_frozen_layer_has_no_backward_pass_and_keeps_nothing() {
    let stem = "operators = [{ conv = 8, kernel = 3 }]";
    let with = |frozen: &str| graph(IMAGE, &[&format!("{frozen}\n{stem}"), stem, LOSS]);
    let (trained, frozen) = (with(""), with("frozen = true"));
    let (whole, layer) = (trained.layer(0), frozen.layer(0));
    assert_eq!(layer.flops(Pass::Forward), whole.flops(Pass::Forward));
    assert_eq!(layer.flops(Pass::Backward), trainyard_units::Flops(0.0));
    assert_eq!(layer.stored(2, Sharing::WHOLE), crate::operator::Storage::default());
    assert_eq!((layer.parameters(Sharing::WHOLE), layer.parameter_tensors()), (whole.parameters(Sharing::WHOLE), 0));
    assert_eq!(frozen.layer(1), trained.layer(1));
}

#[test]
fn a_frozen_norm_measures_nothing() {
    let layer = |norm: &str| {
        let layer = format!("operators = [{{ conv = 8, kernel = 3, norm = \"{norm}\" }}]");
        graph(IMAGE, &[&layer, LOSS]).layer(0).clone()
    };
    let traffic = |norm: &str, pass| {
        let operators = layer(norm).operators;
        operators.iter().map(|operator| operator.kind.traffic(pass).elements).sum::<u64>()
    };
    let map = 8 * 32 * 48;
    assert_eq!([traffic("batch", Pass::Forward), traffic("frozen", Pass::Forward)], [3 * map, 2 * map]);
    assert_eq!([traffic("batch", Pass::Backward), traffic("frozen", Pass::Backward)], [5 * map, 2 * map]);
    assert_eq!(layer("batch").parameters(Sharing::WHOLE), layer("frozen").parameters(Sharing::WHOLE));
}

#[test]
fn branches_that_read_the_same_map_keep_it_once() {
    let stored = |operators: &str| {
        let graph = graph(IMAGE, &["operators = [{ conv = 8 }]", &format!("operators = [{operators}]"), LOSS]);
        graph.layer(1).stored(1, Sharing::WHOLE).elements
    };
    assert_eq!(stored("{ concat = [[{ conv = 1 }], [{ conv = 1 }], [{ conv = 1 }]] }"), 8 * 32 * 48);
    assert_eq!(stored("{ conv = 8 }, { conv = 8 }"), 2 * 8 * 32 * 48);
}

#[test]
fn every_option_changes_what_is_computed() {
    let own = |operators: &str| {
        let graph = graph(IMAGE, &[&format!("operators = [{{ conv = 8 }}, {operators}]"), LOSS]);
        let layer = graph.layer(0).clone();
        (layer.operators, layer.output_elements)
    };
    for (plain, options) in [
        (
            "{ conv = 8, kernel = 3 }",
            vec![
                "stride = 2",
                "padding = 0",
                "padding = \"valid\"",
                "groups = 2",
                "bias = false",
                "norm = \"batch\"",
                "norm = \"layer\"",
                "activation = \"relu\"",
                "activation = \"gelu\"",
                "activation = \"swish\"",
                "dilation = 2, padding = 1",
            ],
        ),
        (
            "{ depthwise = 3 }",
            vec!["stride = 2", "padding = 0", "bias = false", "norm = \"batch\"", "activation = \"relu\""],
        ),
        ("{ transposed_conv = 8, kernel = 3 }", vec!["stride = 2", "padding = \"valid\"", "bias = false"]),
        ("{ max_pool = 3 }", vec!["stride = 2", "padding = 0"]),
        ("{ mean_pool = 3 }", vec!["stride = 2", "padding = 0"]),
        ("{ linear = 8 }", vec!["bias = false", "activation = \"relu\""]),
        (
            "{ attention = 2 }",
            vec![
                "causal = true",
                "kernel = \"flash\"",
                "dropout = true",
                "bias = false",
                "key_bias = false",
                "window = 4",
                "relative_bias = 49",
            ],
        ),
        ("{ class_tokens = 1 }", vec!["positions = false"]),
        ("{ squeeze_excite = 2 }", vec!["activation = \"swish\""]),
        ("{ add = [[], []] }", vec!["dropout = true"]),
    ] {
        for option in options {
            let changed = plain.replace(" }", &format!(", {option} }}"));
            assert_ne!(own(plain), own(&changed), "{changed}");
        }
    }
    let words =
        ["\"batch_norm\"", "\"layer_norm\"", "\"scale\"", "\"dropout\"", "\"flatten\"", "\"global_pool\"", "\"relu\""];
    for word in words {
        assert_ne!(own(word), own("{ linear = 8 }"), "{word}");
    }
}

#[test]
fn sequences_and_volumes_are_maps_of_one_and_three_dimensions() {
    let sequence = graph(
        "input = { tokens = 1600, features = 64 }",
        &["operators = [{ conv = 256, kernel = 11, stride = 2 }]", "operators = [{ linear = 29 }, \"cross_entropy\"]"],
    );
    assert_eq!(sequence.layer(0).parameters(Sharing::WHOLE), 64 * 11 * 256 + 256);
    assert_eq!(sequence.layer(0).output_elements, 800 * 256);
    let volume = graph(
        "input = { channels = 1, depth = 16, height = 32, width = 64 }",
        &["operators = [{ conv = 4, kernel = 3, stride = [1, 2, 2] }]", LOSS],
    );
    assert_eq!(volume.layer(0).parameters(Sharing::WHOLE), 27 * 4 + 4);
    assert_eq!(volume.layer(0).output_elements, 4 * 16 * 16 * 32);
}

#[test]
fn a_job_may_change_the_image_the_tokens_and_how_attention_is_computed() {
    let changed = |change: &dyn Fn(&mut ModelSpec), name: &str| {
        let mut spec = find(name).expect("in the catalog").model.spec();
        change(&mut spec);
        Model::try_from(spec).expect("a valid model")
    };
    let larger = changed(&|spec| spec.image_size = Some(448), "vgg16");
    let plain = &find("vgg16").expect("in the catalog").model;
    let convolved = larger.graph().layer(1).flops(Pass::Forward);
    assert_eq!(convolved, plain.graph().layer(1).flops(Pass::Forward) * 4.0);
    assert_eq!(larger.spec().input.expect("an input").height, Some(448));

    let table = "operators = [{ embedding = 100, width = 8 }]";
    let tail = "operators = [{ attention = 2 }, { linear = 100 }, \"cross_entropy\"]";
    let tokens = |extra: &str| model(&format!("input = {{ tokens = 16 }}\n{extra}"), &[table, tail]).expect("valid");
    assert_eq!(tokens("seq_len = 32").tokens_per_sample(), Some(32));
    let kernel = |model: Model| {
        model.graph().layer(1).operators.iter().find_map(|operator| match operator.kind {
            OperatorKind::Attention(attention) => Some(attention.kernel),
            _ => None,
        })
    };
    assert_eq!(kernel(tokens("")), Some(AttentionKernel::Unfused));
    assert_eq!(kernel(tokens("attention = \"flash\"")), Some(AttentionKernel::Flash));
}

#[test]
fn an_input_is_printed_as_it_is_shaped() {
    let printed = |fields: &str| {
        let spec: ModelSpec = toml::from_str(&format!("name = \"own\"\nfamily = \"layers\"\ninput = {{ {fields} }}"))
            .expect("can be read");
        spec.input.expect("an input").to_string()
    };
    assert_eq!(printed("channels = 1, depth = 8, height = 16, width = 32"), "1 channels of 8 × 16 × 32");
    assert_eq!(printed("tokens = 1500, features = 80"), "1500 tokens of 80 features");
    assert_eq!(printed("features = 13"), "13 features");
}

#[test]
fn what_is_written_survives_json() {
    for entry in crate::catalog().filter(|entry| entry.model.family() == Family::Layers) {
        let spec = entry.model.spec();
        let text = serde_json::to_string(&spec).expect("can be written");
        let again: ModelSpec = serde_json::from_str(&text).expect("can be read");
        assert_eq!(again, spec, "{}", entry.model.name());
    }
}
