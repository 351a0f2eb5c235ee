//! Published measurements that the project cites, predicted again: the build fails when accuracy falls back.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use trainyard_calibration::{
    Entry, Row, RowResult, Status, SuiteResult, VALIDATION_SCHEMA, ValidationDocument, configure, read_measurements,
    validate,
};
use trainyard_units::Seconds;

const STEP_TIMES: &str = include_str!("../../../tests/published/measurements.csv");
const HOPPER: &str = include_str!("../../../tests/published/h100.csv");
const P5: &str = include_str!("../../../tests/published/p5.csv");
const COLLECTIVES: &str = include_str!("../../../tests/published/collectives.csv");
const LIMITS: &str = include_str!("../../../tests/published/limits.toml");

/// A row of eight GPUs that states its whole plan.
const STATED: &str = "vt-s0066";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    suite: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    name: String,
    mape: f64,
    regret: Option<f64>,
}

/// The whole table, predicted once.
fn step_times() -> &'static ValidationDocument {
    static DOCUMENT: OnceLock<ValidationDocument> = OnceLock::new();
    DOCUMENT.get_or_init(|| validate(STEP_TIMES, "measurements.csv").expect("the carried table is well formed"))
}

/// The header and some rows of the table: every `stride`-th of at most `most`, after the stated one.
fn some(stride: usize, most: usize) -> String {
    let mut lines = STEP_TIMES.lines();
    let header = lines.next().expect("a header");
    let stated = STEP_TIMES.lines().find(|line| line.starts_with(STATED)).expect("the row is in the table");
    let others = lines.filter(|line| !line.starts_with(STATED)).step_by(stride).take(most);
    let chosen: Vec<&str> = [header, stated].into_iter().chain(others).collect();
    format!("{}\n", chosen.join("\n"))
}

fn suite<'a>(document: &'a ValidationDocument, name: &str) -> &'a SuiteResult {
    document.suites.iter().find(|suite| suite.suite == name).expect("the suite is in the table")
}

/// A table with one cell of its first row changed.
fn with(table: &str, column: &str, value: &str) -> String {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header).expect("memory takes it");
    for (number, record) in reader.records().enumerate() {
        let record = record.expect("well formed");
        let cells = header.iter().zip(record.iter());
        let changed = cells.map(|(name, cell)| if number == 0 && name == column { value } else { cell });
        writer.write_record(changed).expect("memory takes it");
    }
    String::from_utf8(writer.into_inner().expect("memory takes it")).expect("UTF-8")
}

/// Only the stated row, with one cell changed.
fn first_with(column: &str, value: &str) -> ValidationDocument {
    validate(&with(&some(1, 0), column, value), "mine.csv").expect("still a table")
}

#[test]
fn published_step_times_are_predicted_within_their_limits() {
    let document = step_times();
    let limits: Limits = toml::from_str(LIMITS).expect("the limits are well formed");
    assert_eq!(document.schema, VALIDATION_SCHEMA);
    for Limit { name, mape, regret } in limits.suite {
        let reached = suite(document, &name);
        // Batches of seven rows cannot be divided as the rows say.
        assert!(reached.predicted + 7 >= reached.rows, "{name}: {} of {}", reached.predicted, reached.rows);
        assert!(reached.mape.is_some_and(|error| error <= mape), "{name}: {:?}, limit {mape}", reached.mape);
        let good = |most: f64| reached.regret.is_some_and(|chosen| chosen <= most);
        assert!(regret.is_none_or(good), "{name}: regret {:?}, limit {regret:?}", reached.regret);
    }
    // One in fifty may be far off: a recommendation model whose framework overlaps more than is told, a recurrent one
    // on sixteen machines.
    let far = document.rows.iter().filter(|row| row.error.is_none_or(|error| error.abs() > 0.5)).count();
    assert!(far * 50 <= document.rows.len(), "{far} of {}", document.rows.len());
}

const README: &str = include_str!("../../../README.md");

/// Suites in the order of the rows of the table in docs/accuracy.md.
const ROWS: [&str; 17] = [
    "vtrain-single",
    "vtrain-multi",
    "megatron-sc21",
    "bigscience-a100",
    "mosaic-mpt",
    "dtfm-p3",
    "alpa-p3",
    "dlperf-gpt",
    "dlperf-v100",
    "p3dn",
    "aws-bert-p3dn",
    "pollux-g4dn",
    "lambda",
    "recent",
    "mlperf",
    "nvidia-examples",
    "*",
];

/// Rows of the README's table by the suites in them; those after them are of all suites, and of none of them.
const SUMMARIES: [&[&str]; 4] = [
    &["vtrain-single", "vtrain-multi", "megatron-sc21", "bigscience-a100", "mosaic-mpt"],
    &["dtfm-p3", "alpa-p3", "dlperf-gpt", "dlperf-v100", "p3dn", "aws-bert-p3dn"],
    &["pollux-g4dn"],
    &["mlperf", "nvidia-examples"],
];

/// The cells of the rows of a table whose header begins with a text.
fn table<'a>(page: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let lines = page.lines().skip_while(|line| !line.starts_with(header)).skip(2);
    let cells = |line: &'a str| line.trim_matches('|').split('|').map(str::trim).collect();
    lines.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// The row of a suite in docs/accuracy.md.
fn stated(name: &str) -> Vec<&'static str> {
    let page = include_str!("../../../docs/accuracy.md");
    let rows = table(page, "| published measurements |");
    assert_eq!(rows.len(), ROWS.len(), "docs/accuracy.md has one row for each suite");
    let row = ROWS.iter().position(|row| *row == name).expect("a suite of the page");
    rows.into_iter().nth(row).expect("as many")
}

/// A number of a page: `1 997 of 2 004` is 1997, `**9.7 %**` is 9.7.
fn number(cell: &str) -> f64 {
    let digits = |letter: &char| letter.is_ascii_digit() || ".* ".contains(*letter);
    let digits: String = cell.chars().take_while(digits).filter(|letter| !"* ".contains(*letter)).collect();
    digits.parse().unwrap_or_else(|_| panic!("`{cell}` is no number"))
}

fn count(cell: &str) -> u64 {
    number(cell) as u64
}

/// What errors on unseen groups are takes minutes to find: of that column the page and the README must only agree.
#[test]
fn the_page_on_accuracy_says_what_is_predicted() {
    let document = step_times();
    let mut wrong = Vec::new();
    for name in ROWS {
        let (cells, reached) = (stated(name), suite(document, name));
        let percent = |share: f64, digits: usize| format!("{:.digits$} %", 100.0 * share);
        let (error, held) = (reached.mape.expect("predicted"), reached.coverage90.expect("predicted"));
        let regret = reached.regret.zip(reached.regret_max);
        let regret =
            regret.map_or(String::new(), |(mean, worst)| format!("{} ({})", percent(mean, 1), percent(worst, 0)));
        let expected = [percent(error, 1), percent(held, 0), regret];
        if expected != cells[3..6] || count(cells[1]) != reached.predicted as u64 {
            wrong.push(format!("{name}: {} rows, {}; not {cells:?}", reached.predicted, expected.join(" | ")));
        }
    }
    assert!(wrong.is_empty(), "docs/accuracy.md: {wrong:#?}");
}

#[test]
fn the_readme_says_what_the_page_on_accuracy_says() {
    let rows = table(README, "| | rows | error, unseen |");
    let range = |names: &[&str], column: usize, digits: usize| {
        let values = names.iter().map(|name| number(stated(name)[column]));
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
        if least < most { format!("{least:.digits$} to {most:.digits$} %") } else { format!("{most:.digits$} %") }
    };
    let is = |cells: &[&str], names: &[&str]| {
        assert_eq!(cells[2].trim_matches('*'), range(names, 2, 1), "error of {names:?}");
        assert_eq!(cells[3], range(names, 4, 0), "intervals of {names:?}");
    };
    let mut named = 0;
    for (cells, names) in rows.iter().zip(SUMMARIES) {
        let rows: u64 = names.iter().map(|name| count(stated(name)[1])).sum();
        assert_eq!(count(cells[1]), rows, "rows of {names:?}");
        is(cells, names);
        named += rows;
    }
    let [.., h100, all] = rows.as_slice() else { panic!("rows of all") };
    assert!(h100[0].contains("H100"), "{h100:?}");
    is(all, &["*"]);
    assert_eq!(count(all[1]), count(stated("*")[1]));
    let regret = stated("*")[5].split(" (").next().expect("a mean");
    assert!(README.contains(&format!("takes {regret} longer than the fastest")), "regret");
    let further = format!("{} further rows", count(all[1]) - named);
    assert!(all[0].ends_with(&further), "{} does not say {further}", all[0]);
}

#[test]
fn the_comparison_says_what_the_page_on_accuracy_says() {
    let page = include_str!("../../../docs/compare.md");
    let rows = table(page, "| | vTrain, one machine");
    let suites = ["vtrain-single", "vtrain-multi", "megatron-sc21"];
    assert_eq!(rows[0][1..], suites.map(|name| stated(name)[2].trim_matches('*')));
    let (mean, worst) = stated("*")[5].split_once(" (").expect("a mean and the worst");
    let worst = worst.trim_end_matches(')');
    assert!(
        page.contains(&format!("{mean} longer than the fastest on average with Trainyard, {worst} at worst")),
        "regret"
    );
}

#[test]
fn intervals_hold_about_nine_in_ten() {
    let document = step_times();
    let held = suite(document, "*").coverage90.expect("rows are predicted");
    assert!((0.9..=0.98).contains(&held), "{held}");
    let mut wide = 0;
    for row in document.rows.iter().filter(|row| row.status == Status::Ok) {
        let ([low, high], predicted) =
            (row.interval_s.expect("predicted"), row.predicted_step_time_s.expect("predicted"));
        assert!(low < predicted && predicted < high, "{}: {low} {predicted} {high}", row.id);
        wide += usize::from(high > 10.0 * low);
    }
    // Those whose layout over several machines is not told, and recommendation models of MLPerf, of which one is fifty
    // times as slow as its neighbours.
    assert!(wide <= 10, "{wide}");
}

/// Steps of MPT models on H100, on which no constant was fitted.
#[test]
fn steps_of_a_gpu_that_nobody_calibrated_are_predicted_within_a_tenth() {
    let document = validate(HOPPER, "h100.csv").expect("the carried table is well formed");
    let entries = read_measurements(HOPPER, "h100.csv").expect("well formed");
    let (mut errors, mut held) = (Vec::new(), 0);
    // Tokens a second by what rows have in common, measured and predicted, in half precision and in eight bits.
    let mut rates: BTreeMap<_, [Option<[f64; 2]>; 2]> = BTreeMap::new();
    for (row, entry) in document.rows.iter().zip(&entries) {
        let Entry::Row(stated) = entry else { panic!("{} is a bad row", row.id) };
        let ([low, high], predicted) =
            (row.interval_s.expect("predicted"), row.predicted_step_time_s.expect("predicted"));
        let measured = row.measured_step_time_s.expect("stated");
        held += usize::from((low..=high).contains(&measured));
        errors.push(row.error.expect("predicted"));
        let samples = stated.global_batch.expect("stated") as f64;
        let eighths = usize::from(row.suite.ends_with("fp8"));
        let alike = (stated.hidden, stated.seq_len, stated.nodes, stated.recompute);
        rates.entry(alike).or_default()[eighths] = Some([measured, predicted].map(|time| samples / time));
    }
    assert_eq!(errors.len(), 62);
    let off = errors.iter().map(|error| error.abs()).sum::<f64>() / 62.0;
    errors.sort_by(f64::total_cmp);
    assert!(off < 0.065 && errors[31].abs() < 0.04 && errors[0] > -0.25 && errors[61] < 0.2, "{off}: {errors:?}");
    assert!((56..62).contains(&held), "{held}");
    let mut pairs = 0;
    for (alike, both) in &rates {
        let [Some(half), Some(eighths)] = both else { continue };
        let [measured, predicted] = [0, 1].map(|at| eighths[at] / half[at]);
        assert!((predicted / measured - 1.0).abs() < 0.13, "{alike:?}: {predicted} times as fast for {measured}");
        pairs += 1;
    }
    assert_eq!(pairs, 6);
}

#[test]
fn published_collectives_are_predicted_within_an_eighth() {
    let document = validate(COLLECTIVES, "collectives.csv").expect("the carried table is well formed");
    let all = suite(&document, "*");
    assert!(all.mape.is_some_and(|error| error < 0.125), "{:?}", all.mape);
    assert!(all.coverage90.is_some_and(|held| held >= 0.8), "{:?}", all.coverage90);
    let refused = document.rows.iter().find(|row| row.status == Status::Unsupported).expect("one row has no size");
    assert!(refused.reason.as_ref().is_some_and(|reason| reason.contains("size of the message")));
}

/// Collectives on machines whose adapters write remote memory, on which no constant was fitted.
#[test]
fn collectives_on_p5_are_predicted_within_a_fifth_on_any_number_of_machines() {
    let document = validate(P5, "p5.csv").expect("the carried table is well formed");
    let of = |name: &str| suite(&document, name);
    let (reduced, exchanged) = (of("all_reduce p5.48xlarge"), of("all_to_all p5.48xlarge"));
    assert!(reduced.mape.is_some_and(|error| error < 0.2), "{:?}", reduced.mape);
    assert!(exchanged.mape.is_some_and(|error| error < 0.1), "{:?}", exchanged.mape);
    assert!(of("*").coverage90.is_some_and(|held| held >= 0.9), "{:?}", of("*").coverage90);
    // What loads the fabric most shows that its size does not matter: nothing grows with the machines.
    let of_machines = |devices| {
        let long = |row: &&RowResult| row.devices == Some(devices) && row.message_bytes >= Some(1 << 30);
        let rows = document.rows.iter().filter(long).filter(|row| row.suite.starts_with("all_to_all"));
        let errors: Vec<f64> = rows.map(|row| row.error.expect("predicted")).collect();
        errors.iter().sum::<f64>() / errors.len() as f64
    };
    let [two, most] = [16, 256].map(of_machines);
    assert!(two.abs() < 0.1 && most.abs() < 0.1, "{two} on two machines, {most} on 32");
}

#[test]
fn equal_tables_give_equal_documents_on_any_number_of_threads() {
    let table = some(20, 100);
    let text = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        let document = pool.install(|| validate(&table, "mine.csv")).expect("still a table");
        serde_json::to_string(&document).expect("it can be written")
    };
    let one = text(1);
    assert!(text(2) == one && text(3) == one);
}

#[test]
fn a_bad_cell_costs_its_row_and_no_other() {
    let few = some(200, 10);
    let good = validate(&few, "mine.csv").expect("still a table");
    for (column, value, allowed) in [
        ("layers", "twelve", "a whole number"),
        ("tp", "-2", "a whole number"),
        ("dp", "0", "at least 1"),
        ("step_time_s", "NaN", "a number above 0"),
        ("step_time_s", "", "a number above 0"),
        ("global_batch", "99999999999999999999999", "a whole number"),
        ("recompute", "some", "none, selective, full"),
        ("image_size", "224x", "224 or 800x1333"),
        ("xla", "perhaps", "yes, no"),
        ("id", "", "given"),
    ] {
        let document = validate(&with(&few, column, value), "mine.csv").expect("still a table");
        let [error] = document.malformed.as_slice() else { panic!("{column}: {:?}", document.malformed) };
        let said = error.to_string();
        let shown = if value.is_empty() { "is empty".to_owned() } else { format!("`{value}`") };
        for part in ["`mine.csv` line 2", &format!("`{column}`"), &shown, allowed] {
            assert!(said.contains(part), "{said}: {part}");
        }
        assert_eq!(document.rows[0].status, Status::Unsupported);
        assert_eq!(document.rows[0].reason.as_deref(), Some(said.as_str()));
        assert_eq!(document.rows[1..], good.rows[1..]);
    }
}

#[test]
fn rows_that_cannot_be_expressed_say_why() {
    for (column, value, reason) in [
        ("model", "resnet5", "`resnet5`"),
        ("model", "gpt-moe", "`experts`"),
        ("zero_stage", "4", "ZeRO-4"),
        ("virtual_stages", "5", "virtual_stages"),
        ("gpu", "b9000", "`b9000`"),
        ("precision", "fp4", "`fp4`"),
        ("precision", "fp8", "has no units for it"),
        ("optimizer", "lion", "`lion`"),
        ("offload", "weights", "`weights`"),
        ("offload", "parameters", "main memory"),
        ("global_batch", "61", "61"),
        ("global_batch", "4294967297", "more than 4294967296"),
        ("gpus_per_node", "4294967295", "more than 1024"),
        ("nodes", "4294967295", "more than 1048576"),
        ("dp", "16", "more ranks than the 8 GPUs"),
        ("layers", "", "`layers`"),
        ("heads", "17", "17"),
        ("intra_node_link", "string", "`string`"),
    ] {
        let document = first_with(column, value);
        let row = &document.rows[0];
        assert!(document.malformed.is_empty() && row.status == Status::Unsupported, "{column}: {row:?}");
        assert!(row.reason.as_ref().is_some_and(|said| said.contains(reason)), "{column}: {row:?}");
        assert!(row.predicted_step_time_s.is_none() && row.error.is_none() && row.measured_step_time_s.is_some());
    }
}

/// Alpa cuts stages by what layers take, which is asked before there is a plan.
#[test]
fn micro_batches_beyond_counting_are_refused_before_a_layer_is_priced() {
    let entries = read_measurements(STEP_TIMES, "measurements.csv").expect("well formed");
    let cut_by_price = entries.into_iter().find_map(|entry| match entry {
        Entry::Row(row) if row.stack == "alpa" && row.model == "gpt" => Some(row),
        _ => None,
    });
    let mut row = cut_by_price.expect("a row of Alpa's");
    row.micro_batch = Some(1_000_000_000_000);
    let said = configure(&row).expect_err("refused").to_string();
    assert!(said.contains("batch.micro") && said.contains("1000000000000"), "{said}");
}

#[test]
fn every_knob_of_a_row_reaches_its_plan() {
    let good = first_with("zero_stage", "0").rows[0].predicted_step_time_s.expect("predicted");
    let changed = |column, value| first_with(column, value).rows[0].predicted_step_time_s.expect("predicted");
    assert!(changed("zero_stage", "3") > good, "weights are gathered");
    assert!(changed("recompute", "selective") < good, "less is computed again");
    assert!(changed("recompute", "none") < changed("recompute", "selective"));
    assert!(changed("precision", "tf32") > good, "products of half the rate");
    for (column, value) in [("zero_stage", "1"), ("zero_stage", "2"), ("sequence_parallel", "true")] {
        assert!((changed(column, value) / good - 1.0).abs() > 1e-6, "{column} = {value}");
    }
}

#[test]
fn what_a_row_tells_of_a_model_of_the_catalog_reaches_it() {
    let configured = |changes: &[(&str, &str)]| {
        let entries = read_measurements(&row_of("resnet50", changes), "mine.csv").expect("well formed");
        let [Entry::Row(row)] = entries.as_slice() else { panic!("one good row: {entries:?}") };
        configure(row)
    };
    let time = |changes: &[(&str, &str)]| {
        configured(changes).and_then(|row| row.predict().map(|(_, outcome)| outcome.step_time.0)).expect("supported")
    };
    let largest = u64::MAX.to_string();
    let error = configured(&[("image_size", &format!("{largest}x572"))]).expect_err("too large").to_string();
    assert!(error.contains("more than 65536"), "{error}");
    let plain = time(&[]);
    assert!(time(&[("image_size", "448")]) > 3.0 * plain, "four times the pixels");
    assert!(time(&[("notes", "base_channels=128 width_factor=2; as told")]) > 2.0 * plain, "wider");
    assert!(time(&[("optimizer", "lamb")]) > time(&[("optimizer", "sgd")]), "more state");
    assert!(time(&[("stack", "tensorflow1"), ("stack_version", "20.06"), ("xla", "yes")]) < plain * 1.5);
    let xla = |word| time(&[("stack", "tensorflow1"), ("stack_version", "20.06"), ("xla", word)]);
    assert!(xla("yes") < xla("no"), "what XLA fuses is moved less");
    let tokens = |count| {
        let changes = [("model", "bert-base"), ("image_size", ""), ("seq_len", count), ("stack", "pytorch")];
        time(&changes) / count.parse::<f64>().expect("a number")
    };
    // Tuning for a task scores no vocabulary; pre-training does.
    assert!(tokens("136") < tokens("128"));
}

/// A table of one row that trains a model of the catalog on one V100.
fn row_of(model: &str, changes: &[(&str, &str)]) -> String {
    let stated = [
        ("id", "one"),
        ("suite", "mine"),
        ("system", "dgx-1-v100-16gb"),
        ("nodes", "1"),
        ("gpus_per_node", "1"),
        ("gpu", "v100-sxm2-16gb"),
        ("model", model),
        ("stack", "ngc-mxnet"),
        ("precision", "fp16-mixed"),
        ("global_batch", "64"),
        ("micro_batch", "64"),
        ("optimizer", "sgd-momentum"),
        ("recompute", "none"),
        ("step_time_s", "0.1"),
    ];
    let header = STEP_TIMES.lines().next().expect("a header");
    let cell = |column: &str| {
        let of = |cells: &[(&str, &str)]| {
            cells.iter().find(|(name, _)| *name == column).map(|(_, value)| (*value).to_owned())
        };
        of(changes).or_else(|| of(&stated)).unwrap_or_default()
    };
    let cells: Vec<String> = header.split(',').map(cell).collect();
    format!("{header}\n{}\n", cells.join(","))
}

#[test]
fn an_open_interleave_degree_is_the_best_that_divides() {
    let entries = read_measurements(STEP_TIMES, "measurements.csv").expect("well formed");
    let interleaved = entries.into_iter().find_map(|entry| match entry {
        Entry::Row(row) if row.schedule == Some("interleaved-1f1b") && row.layers == Some(60) && row.pp == Some(4) => {
            Some(row)
        }
        _ => None,
    });
    let mut row = interleaved.expect("a row of 60 layers on 4 stages");
    row.micro_batch = Some(1);
    // Of two, three and four runs on each of four stages, only three divide 60 layers.
    let runs = |row: &Row| -> Vec<u32> {
        configure(row).expect("supported").plans.iter().map(|plan| plan.stages().chunks_per_stage()).collect()
    };
    assert_eq!(runs(&row), [3]);
    row.layers = Some(48);
    assert_eq!(runs(&row), [2, 3, 4]);
    row.virtual_stages = Some(6);
    assert_eq!(runs(&row), [6]);
}

#[test]
fn doubled_ids_and_short_lines_are_bad_rows() {
    let few = some(200, 3);
    let first = few.lines().nth(1).expect("there is a row");
    let text = format!("{few}{first}\nshort,line\n");
    let document = validate(&text, "mine.csv").expect("still a table");
    assert_eq!(document.rows.len(), 6);
    let lines: Vec<u64> = document.malformed.iter().map(|error| error.line).collect();
    let last = text.lines().count() as u64;
    assert_eq!(lines, [last - 1, last]);
    assert_eq!(document.malformed[0].invalid.field(), "id");
}

#[test]
fn what_is_no_table_is_refused() {
    assert!(validate("", "mine.csv").is_err_and(|error| error.to_string().contains("the table is empty")));
    let lacking = STEP_TIMES.replacen("micro_batch", "microbatch", 1);
    let error = validate(&lacking, "mine.csv").expect_err("a column is missing");
    let said = error.to_string();
    assert!(said.contains("`mine.csv` line 1") && said.contains("`micro_batch`"), "{said}");
    assert!(error.hint().is_some());
}

#[test]
fn a_slower_network_never_makes_a_row_faster() {
    let entries = read_measurements(STEP_TIMES, "measurements.csv").expect("well formed");
    let rows = entries.into_iter().filter_map(|entry| match entry {
        Entry::Row(row) if row.nodes > 1 && row.dp.is_some() && row.micro_batch.is_some() => Some(row),
        _ => None,
    });
    let mut compared = 0;
    for mut row in rows {
        let time = |row: &Row| -> Seconds {
            configure(row).and_then(|row| row.predict().map(|(_, outcome)| outcome.step_time)).expect("supported")
        };
        let stated = time(&row);
        row.inter_node_gbps = row.inter_node_gbps.map(|rate| rate / 4.0);
        assert!(time(&row).0 >= stated.0, "{}", row.id);
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn an_open_knob_is_set_as_well_as_it_can_be() {
    let entries = read_measurements(STEP_TIMES, "measurements.csv").expect("well formed");
    let open = entries.into_iter().find_map(|entry| match entry {
        Entry::Row(row) if row.micro_batch.is_none() && row.dp == Some(1) && row.nodes == 1 => Some(row),
        _ => None,
    });
    let mut row = open.expect("a row leaves its micro-batch open");
    let time = |row: &Row| -> (f64, bool) {
        let configuration = configure(row).expect("supported");
        let (_, outcome) = configuration.predict().expect("supported");
        (outcome.step_time.0, outcome.footprint.fits_without_margin().is_ok())
    };
    let (best, fits) = time(&row);
    assert!(fits);
    let samples = row.global_batch.expect("stated") / u64::from(row.dp.expect("stated"));
    let mut reached = false;
    for micro in (1..=samples).filter(|micro| samples.is_multiple_of(*micro)) {
        row.micro_batch = Some(micro);
        let (stated, fits) = time(&row);
        assert!(!fits || best <= stated, "micro-batch {micro}: {stated} beats {best}");
        reached |= (best / stated - 1.0).abs() < 1e-12;
    }
    assert!(reached);
}
