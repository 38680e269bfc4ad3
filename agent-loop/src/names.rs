//! The names under which evidence stands in a Polyaxon run, decided once.
//!
//! They are plain keys: the platform cleans others, and its queries take letters, digits and `_`
//! only. Candidates are compared as the runs with one `inputs.case_set_revision`, sorted by the
//! metric that failed its requirement.

/// What an attempt was made with.
pub mod input {
    /// The task's id.
    pub const TASK_ID: &str = "task_id";
    /// Which try at the task, from 1.
    pub const ATTEMPT: &str = "attempt";
    /// The run of the sandbox that it works in.
    pub const SANDBOX_RUN_UUID: &str = "sandbox_run_uuid";
    /// The revision of the repository that the task's files are from.
    pub const REPOSITORY_REVISION: &str = "repository_revision";
    /// The digest of what shapes the prompts.
    pub const PROMPT_REVISION: &str = "prompt_revision";
    /// The name of the model.
    pub const MODEL: &str = "model";
    /// How the model is asked.
    pub const MODEL_SETTINGS: &str = "model_settings";
    /// The digest of what the model may ask for: the schema of actions, or of tools.
    pub const TOOL_DEFINITIONS_DIGEST: &str = "tool_definitions_digest";
    /// The digest of the case set that the task is from.
    pub const CASE_SET_REVISION: &str = "case_set_revision";
    /// The digest of the evaluator with all its plans.
    pub const EVALUATOR_REVISION: &str = "evaluator_revision";
    /// The patch that a verification run is about.
    pub const PATCH_SHA256: &str = "patch_sha256";
}

/// What is measured, a point a step.
pub mod metric {
    /// How long a command ran in the sandbox, in milliseconds. No queueing and no provisioning is
    /// in it.
    pub const COMMAND_DURATION_MS: &str = "command_duration_ms";
    /// 1 where a command was ended at its time limit, else 0.
    pub const COMMAND_TIMED_OUT: &str = "command_timed_out";
    /// 1 where a check or an evaluator said yes, 0 where it said no. No point where it said
    /// neither.
    pub const CHECK_PASSED: &str = "check_passed";
    /// How long a call of the model took, in milliseconds.
    pub const MODEL_DURATION_MS: &str = "model_duration_ms";
    /// Tokens of a prompt, as the provider counted them.
    pub const INPUT_TOKENS: &str = "input_tokens";
    /// Tokens of a reply, as the provider counted them.
    pub const OUTPUT_TOKENS: &str = "output_tokens";
    /// What a call of the model cost, in millionths of the currency of its price.
    pub const COST_MICROS: &str = "cost_micros";

    /// All of them.
    pub const ALL: [&str; 7] = [
        COMMAND_DURATION_MS,
        COMMAND_TIMED_OUT,
        CHECK_PASSED,
        MODEL_DURATION_MS,
        INPUT_TOKENS,
        OUTPUT_TOKENS,
        COST_MICROS,
    ];
}

/// What came of it.
pub mod output {
    /// `accepted`, `not_accepted`, `invalid` or `not_evaluated`.
    pub const ACCEPTANCE: &str = "acceptance";
    /// What a pass is worth.
    pub const EVIDENCE_LEVEL: &str = "evidence_level";
    /// Why it ended, as a word.
    pub const END: &str = "end";
    /// Replies of the model.
    pub const TURNS: &str = "turns";
    /// The digest of the files at the end.
    pub const TREE_DIGEST: &str = "tree_digest";
    /// The part of the commands that were ended at their time limit, from 0 to 1.
    pub const TIMEOUT_RATE: &str = "timeout_rate";
    /// The median of the commands' durations, in milliseconds.
    pub const COMMAND_DURATION_MS_P50: &str = "command_duration_ms_p50";
    /// The sum of the costs that are known.
    pub const COST_MICROS_KNOWN: &str = "cost_micros_known";
    /// How many calls of the model are not in that sum.
    pub const UNKNOWN_COST_CALLS: &str = "unknown_cost_calls";
}

/// What is kept as a file, with its lineage.
pub mod artifact {
    /// What a command did, without what it wrote: `receipts/step-N.json`.
    pub const COMMAND_RECEIPT: &str = "command-receipt";
    /// The change, as git reads it.
    pub const PATCH: &str = "patch";
    /// The journal.
    pub const ACTIONS: &str = "actions";
    /// The large bodies of the journal, where it has any.
    pub const ACTION_BLOBS: &str = "action-blobs";
    /// Everything there is to say at the end.
    pub const OUTCOME: &str = "outcome";
    /// The same for people, as one page.
    pub const REPORT: &str = "report";
    /// Expected and observed behaviour, the evaluator's revision, the decision.
    pub const CASE_REPORT: &str = "case-report";
}
