//! What pipeline stages hold, in words. Software counts a transformer's blocks and keeps the embedding with the first
//! of them and the head with the last; plans count layers, of which these two are the first and the last.

use crate::schedules::StageId;
use crate::valid::Plan;
use std::ops::Range;
use trainyard_models::{LayerRole, OperatorGraph};
use trainyard_units::counted;

/// The most groups of neighbouring stages that hold the same which are listed one by one.
const LISTED: usize = 5;

/// What a stage, or one of its model chunks, holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held<'a> {
    /// The layer before the blocks, if it is there.
    input: Option<&'a str>,
    /// Blocks or, of a model that is no stack of blocks, layers.
    count: usize,
    /// The layer behind the blocks, if it is there.
    output: Option<&'a str>,
}

impl Held<'_> {
    /// Formats it, with the noun of what is counted if that is to be said.
    fn told(&self, unit: Option<&str>) -> String {
        let count = (self.count > 0).then(|| match unit {
            Some(unit) => counted(self.count as u64, unit),
            None => self.count.to_string(),
        });
        let parts = [self.input.map(Into::into), count, self.output.map(Into::into)];
        parts.into_iter().flatten().collect::<Vec<String>>().join(" + ")
    }
}

/// Returns `true` if a model is blocks between a layer that is none and another.
fn is_stack_of_blocks(graph: &OperatorGraph) -> bool {
    let inner = 1..graph.len().saturating_sub(1);
    let is_block = |index| {
        let layer = graph.layer(index);
        layer.role == LayerRole::Block && layer.name.ends_with("block")
    };
    !inner.is_empty() && inner.clone().all(is_block) && !is_block(0) && !is_block(inner.end)
}

/// Lists what stages hold, neighbours that hold the same together: `embedding + 7 blocks`, `14 × 8`, `7 + head`.
fn listed(all: &[Held<'_>], unit: &str) -> Vec<String> {
    let mut said = false;
    let mut told = Vec::new();
    for same in all.chunk_by(|one, next| one == next) {
        let first_count = !said && same[0].count > 0;
        said |= first_count;
        let held = same[0].told(first_count.then_some(unit));
        told.push(if same.len() == 1 { held } else { format!("{} × {held}", same.len()) });
    }
    told
}

impl Plan {
    /// Returns the word for what the stages of its model are counted in.
    pub fn stage_unit(&self) -> &'static str {
        if is_stack_of_blocks(self.graph()) { "block" } else { "layer" }
    }

    /// Says what all pipeline stages hold, behind their number: ` of 8 blocks each` or
    /// `: embedding + 7 blocks, 14 × 8, 7 + head`.
    /// An embedding in the first stage and a head in the last go without saying where stages have as many blocks.
    pub fn stages_in_words(&self) -> String {
        let stages = self.stages();
        let held: Vec<Held<'_>> = stages.ids().map(|stage| self.held_in(stages.chunks_of(stage))).collect();
        let counts = || held.iter().map(|held| held.count);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let unit = self.stage_unit();
        if least == most {
            return format!(" of {} each", counted(most as u64, unit));
        }
        let told = listed(&held, unit);
        if told.len() > LISTED {
            return format!(" of {least} to {} each", counted(most as u64, unit));
        }
        format!(": {}", told.join(", "))
    }

    /// Says how the model is cut, model chunk by model chunk in its order: `4 × 8 blocks` or
    /// `embedding + 7 blocks, 14 × 8, 7 + head`.
    pub fn cut_in_words(&self) -> String {
        let stages = self.stages();
        let held: Vec<Held<'_>> = (0..stages.chunks()).map(|at| self.held_in([stages.layers_at(at)])).collect();
        let unit = self.stage_unit();
        match &held[..] {
            [only] => counted(only.count as u64, unit),
            [first, ..] if held.iter().all(|held| held.count == first.count) => {
                format!("{} × {}", held.len(), counted(first.count as u64, unit))
            }
            _ => listed(&held, unit).join(", "),
        }
    }

    /// Lists the numbers of the blocks of a stage, and the layers before and behind all blocks: `embedding, 0 to 6`.
    pub fn stage_in_words(&self, stage: StageId) -> String {
        let mut told = Vec::new();
        for run in self.stages().chunks_of(stage) {
            let (held, numbers) = (self.held_in([run.clone()]), self.counted_in(&run));
            told.extend(held.input.map(Into::into));
            told.extend(match numbers.len() {
                0 => None,
                1 => Some(numbers.start.to_string()),
                _ => Some(format!("{} to {}", numbers.start, numbers.end - 1)),
            });
            told.extend(held.output.map(Into::into));
        }
        told.join(", ")
    }

    /// Returns the numbers of the blocks in a run of layers, or those of its layers.
    fn counted_in(&self, run: &Range<usize>) -> Range<usize> {
        if !is_stack_of_blocks(self.graph()) {
            return run.clone();
        }
        let blocks = self.graph().len() - 2;
        run.start.saturating_sub(1)..(run.end - 1).min(blocks)
    }

    fn held_in(&self, runs: impl IntoIterator<Item = Range<usize>>) -> Held<'_> {
        let graph = self.graph();
        let (blocks, last) = (is_stack_of_blocks(graph), graph.len() - 1);
        let name_of =
            |index: usize, run: &Range<usize>| (blocks && run.contains(&index)).then(|| &*graph.layer(index).name);
        runs.into_iter().fold(Held::default(), |held, run| Held {
            input: held.input.or_else(|| name_of(0, &run)),
            count: held.count + self.counted_in(&run).len(),
            output: held.output.or_else(|| name_of(last, &run)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedules::ScheduleName;
    use crate::spec::{BatchSpec, ClusterSpec, ParallelSpec, PlanSpec, StageSpec};

    /// A model cut into runs of so many layers, as many on each stage.
    fn cut(model: &str, layers: &[usize], chunks: u32, schedule: ScheduleName) -> Plan {
        let model = &trainyard_models::find(model).expect("in the catalog").model;
        let pipeline = layers.len() as u32 / chunks;
        let mut next = 0;
        let stages = layers.iter().map(|layers| {
            next += layers;
            StageSpec { first: next - layers, layers: *layers }
        });
        let micro_batches = u64::from(pipeline);
        Plan::try_from(PlanSpec {
            parallel: ParallelSpec { pipeline, ..ParallelSpec::default() },
            batch: BatchSpec { global: micro_batches, micro: 1, accumulation: micro_batches },
            stages: stages.collect(),
            virtual_stages: chunks,
            schedule,
            ..PlanSpec::plain(model.spec(), ClusterSpec::of("p4d.24xlarge", 1), model.graph().len())
        })
        .expect("a valid plan")
    }

    const PLAIN: ScheduleName = ScheduleName::OneForwardOneBackward;

    /// GPT-2 has twelve blocks.
    #[test]
    fn blocks_are_counted_between_the_embedding_and_the_head() {
        let even = cut("gpt2", &[4, 3, 3, 4], 1, PLAIN);
        assert_eq!((even.stages_in_words(), even.cut_in_words()), (" of 3 blocks each".into(), "4 × 3 blocks".into()));
        let uneven = cut("gpt2", &[3, 4, 4, 3], 1, PLAIN);
        assert_eq!(uneven.stages_in_words(), ": embedding + 2 blocks, 2 × 4, 2 + head");
        assert_eq!(uneven.cut_in_words(), "embedding + 2 blocks, 2 × 4, 2 + head");
        let each: Vec<String> = uneven.stages().ids().map(|stage| uneven.stage_in_words(stage)).collect();
        assert_eq!(each, ["embedding, 0 to 1", "2 to 5", "6 to 9", "10 to 11, head"]);
        let bare = cut("gpt2", &[1, 12, 1], 1, PLAIN);
        assert_eq!(bare.stages_in_words(), ": embedding, 12 blocks, head");
        assert_eq!(bare.stage_in_words(StageId(2)), "head");
    }

    #[test]
    fn a_stage_of_several_model_chunks_holds_all_of_them() {
        let folded = cut("gpt2", &[4, 3, 3, 4], 2, ScheduleName::ZeroBubbleV);
        assert_eq!(folded.stages_in_words(), " of 6 blocks each");
        assert_eq!(folded.stage_in_words(StageId(0)), "embedding, 0 to 2, 9 to 11, head");
        assert_eq!(folded.stage_in_words(StageId(1)), "3 to 5, 6 to 8");
    }

    #[test]
    fn many_unlike_stages_are_told_by_the_least_and_the_most() {
        let plan = cut("gpt2", &[2, 1, 2, 1, 2, 1, 2, 3], 1, PLAIN);
        assert_eq!(plan.stages_in_words(), " of 1 to 2 blocks each");
        assert_eq!(plan.cut_in_words(), "embedding + 1 block, 1, 2, 1, 2, 1, 2, 2 + head");
    }

    #[test]
    fn models_that_are_more_than_blocks_keep_their_layers() {
        let layers = trainyard_models::find("gnmt").expect("in the catalog").model.graph().len();
        let plan = cut("gnmt", &[layers - 3, 3], 1, PLAIN);
        assert_eq!(plan.stages_in_words(), format!(": {} layers, 3", layers - 3));
        assert_eq!(plan.stage_in_words(StageId(0)), format!("0 to {}", layers - 4));
    }
}
