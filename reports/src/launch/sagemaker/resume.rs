//! The start of a script in a job that SageMaker may start again: from the newest checkpoint that it brought back.

use super::PLACES;
use crate::launch::python::literal;
use serde_json::json;

/// The name of the file, which lies beside the script.
pub(super) const FILE: &str = "resume.py";

/// Returns the text of the file. transformers' Trainer writes the state of a checkpoint last, so that one that has it
/// is complete.
pub(super) fn text(script: &str) -> String {
    let pattern = format!("{}/checkpoint-*/trainer_state.json", PLACES.results.unwrap_or_default());
    let (script, pattern) = (literal(&json!(script), 0), literal(&json!(pattern), 0));
    format!(
        "# Starts the training script, from its newest checkpoint if SageMaker brought one back.
import glob
import os
import runpy
import sys

checkpoints = [os.path.dirname(path) for path in glob.glob({pattern})]
if checkpoints:
    newest = max(checkpoints, key=lambda folder: int(folder.rsplit(\"-\", 1)[1]))
    sys.argv += [\"--resume_from_checkpoint\", newest]
# SageMaker hands over a flag with an empty value.
sys.argv[1:] = [word for word in sys.argv[1:] if word]
sys.argv[0] = {script}
runpy.run_path(sys.argv[0], run_name=\"__main__\")
"
    )
}
