//! Files of PyTorch's exporters (`interop/tests/onnx/make.py`) against the same models written out.

use trainyard_interop::from_onnx;
use trainyard_models::{Model, ModelSpec};

fn read(name: &str) -> Model {
    let path = format!("{}/tests/onnx/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).expect("the file is in the repository");
    let spec = from_onnx(std::io::Cursor::new(bytes), name).unwrap_or_else(|error| panic!("{name}: {error}"));
    Model::try_from(spec).expect("checked")
}

fn native(input: &str, layers: &str) -> Model {
    let text = format!("name = \"own\"\nfamily = \"layers\"\ninput = {{ {input} }}\nlayer = [{layers}]");
    Model::try_from(toml::from_str::<ModelSpec>(&text).expect("a specification")).expect("a valid model")
}

fn assert_same(read: &Model, native: &Model) {
    let (read, native) = (read.graph(), native.graph());
    assert_eq!(read.parameters(), native.parameters());
    assert!((read.training_flops().0 / native.training_flops().0 - 1.0).abs() < 1e-12);
}

#[test]
fn transformers_of_both_exporters_are_the_one_that_is_written_out() {
    let block = "{ add = [[\"layer_norm\", { attention = 4 }], []] }, \
        { add = [[\"layer_norm\", { linear = 128, activation = \"gelu\" }, { linear = 32 }], []] }";
    let written = native(
        "tokens = 16",
        &format!(
            "{{ name = \"table\", operators = [{{ embedding = 50, width = 32, positions = 16 }}] }}, \
             {{ name = \"block\", repeat = 2, operators = [{block}] }}, \
             {{ name = \"head\", operators = [\"layer_norm\", {{ linear = 50, bias = false }}, \"cross_entropy\"] }}"
        ),
    );
    for name in ["transformer.onnx", "transformer-torchscript.onnx"] {
        let model = read(name);
        assert_same(&model, &written);
        // Embedding, two blocks, head: a pipeline may be cut between them.
        assert_eq!(model.graph().len(), 4, "{name}");
    }
}

#[test]
fn a_residual_network_is_the_one_that_is_written_out() {
    let conv = |outputs, more: &str| format!("{{ conv = {outputs}, kernel = 3, padding = 1, norm = \"batch\"{more} }}");
    let relu = ", activation = \"relu\"";
    let layers = format!(
        "{{ name = \"stem\", operators = [{{ conv = 16, kernel = 7, stride = 2, padding = 3, norm = \"batch\"{relu} }}, \
           {{ max_pool = 3, stride = 2, padding = 1 }}] }}, \
         {{ name = \"one\", operators = [{{ add = [[{}, {}], []] }}, \"relu\"] }}, \
         {{ name = \"two\", operators = [{{ add = [[{}, {}], [{{ conv = 32, stride = 2, norm = \"batch\" }}]] }}, \"relu\"] }}, \
         {{ name = \"head\", operators = [\"global_pool\", {{ linear = 10 }}, \"cross_entropy\"] }}",
        conv(16, relu),
        conv(16, ""),
        conv(32, &format!(", stride = 2{relu}")),
        conv(32, ""),
    );
    let model = read("residual.onnx");
    assert_same(&model, &native("channels = 3, height = 64, width = 64", &layers));
    assert_eq!(model.graph().len(), 4);
}
