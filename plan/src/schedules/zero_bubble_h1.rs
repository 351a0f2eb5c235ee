//! ZB-H1: 1F1B whose weight gradients fill the drain (figure 3).

use super::{BetweenSteps, Pipeline, Schedule, Slot, StageId, StagePass, StepBound, run_ahead};

pub(super) struct ZeroBubbleH1;

impl Schedule for ZeroBubbleH1 {
    fn about(&self) -> &'static str {
        "1f1b whose weight gradients fill the drain: a third of its bubble"
    }

    fn source(&self) -> &'static str {
        "Qi et al., arXiv:2401.10241, section 2.3"
    }

    /// 1F1B with gradients of weights postponed by as many micro-batches as there are earlier stages, so that all
    /// stages hold as much as the first does in 1F1B, and have work while the pipeline drains.
    fn program(&self, pipeline: Pipeline, stage: StageId) -> Vec<Slot> {
        let mut slots = Vec::new();
        let (mut inputs, mut weights) = (0, 0);
        for slot in run_ahead(pipeline.after(stage), pipeline.micro_batches) {
            if slot.pass == StagePass::Forward {
                slots.push(slot);
                continue;
            }
            slots.push(Slot { pass: StagePass::BackwardInput, ..slot });
            inputs += 1;
            if inputs > stage.0 {
                slots.push(Slot { pass: StagePass::BackwardWeight, micro_batch: weights, ..slot });
                weights += 1;
            }
        }
        slots.extend((weights..inputs).map(|micro_batch| Slot {
            pass: StagePass::BackwardWeight,
            chunk: 0,
            micro_batch,
        }));
        slots
    }

    fn peak_micro_batches(&self, pipeline: Pipeline, _: StageId) -> Option<u32> {
        Some(pipeline.stages)
    }

    fn between_steps(&self) -> BetweenSteps {
        BetweenSteps::Staggered
    }

    fn splits_backward(&self) -> bool {
        true
    }

    fn period(&self, _: Pipeline) -> Option<u32> {
        Some(1)
    }

    fn bound(&self) -> StepBound {
        StepBound::Staggered
    }
}
