//! Differences that are meant, and why they are. A difference without a reason fails the test.

const LANGUAGE: &str = "env.json says what this process is: there is no interpreter, and no \
    arguments, which can hold secrets";
const COLLISION: &str = "two names that are stored as one are refused, not mixed; two things of one \
    name too, of which the lineage would hide one";
const EMPTY: &str = "a name of which nothing is left is refused, and the run goes on";
const EXACT: &str = "the exact value; Python's reader is off by one in the last place";
const INSTANTS: &str = "steps are integers of 64 bits, times are instants in UTC";
const BAR: &str = "a bar in a payload is written as \\u007c, which every reader takes";
const ARRAYS: &str = "pictures, sounds and tables come as files, not as arrays";
const KINDS: &str = "kinds that the platform does not know have no form here";
const FLOAT: &str = "a progress is a float";
const IN_ONE: &str = "raw records are references, each in a call, with a direction";
const OBJECTS: &str = "a hash is of bytes, not of the text form of an object";
const TENSORBOARDS: &str = "every TensorBoard of a run is registered, not only the first";
const FILE_BY_FILE: &str = "files are sent and fetched one by one, so that a break costs one of \
    them; Python's archive empties the folder on the server first";
const RESUMED: &str = "a run that is there already is completed, not given up";
const OWN_RECORD: &str = "the second push of Python sends what its first one got back";
const ONCE: &str = "the value of the last call is told once, with those of the files";
const COLLECTED: &str = "events are always kept: nothing that is logged is dropped with a warning";
const CHECKED: &str = "the run is looked up first: a mistaken id is an error of the start";
const RUNNING: &str = "a run is running once it was started";
const LISTS: &str = "tags are a list, not YAML in a text; no tags are no call";
const NUMBERS: &str = "any number type has a form in JSON, and so have maps with other keys";
const MISSING: &str = "the recording has the summaries of these two series, but not their files";

/// Why a file of a case differs.
pub(super) fn file(case: &str, path: &str) -> Option<&'static str> {
    let is_metadata = path.ends_with(".plx.json");
    Some(match (case, path) {
        (_, "outputs/env.json") if case != "offline-refs" => LANGUAGE,
        ("offline-metric-values", _) if is_metadata => EXACT,
        ("offline-steps-timestamps", _) => INSTANTS,
        ("offline-metric-names", "events/metric/__x__.plx" | "events/metric/__abs__path.plx") => {
            MISSING
        }
        ("offline-metric-names", _) => COLLISION,
        ("offline-metric-name-empty", _) => EMPTY,
        ("offline-structured", "events/confusion/conf_q.plx" | "lineages.plx.json") => BAR,
        ("offline-structured", "events/metric/curve.plx" | "run.plx.json") => COLLISION,
        ("offline-media", _) => ARRAYS,
        ("offline-artifacts", "assets/bogus/badkind_1.v1.bin") => KINDS,
        ("offline-artifacts", _) => COLLISION,
        ("offline-refs", "lineages.plx.json") => KINDS,
        ("offline-io", "run.plx.json") => FLOAT,
        ("online-metric-values", "events/text/dup.plx") => COLLISION,
        ("online-status" | "online-existing-run", _) => COLLECTED,
        _ => return None,
    })
}

/// Why a request of a case differs.
pub(super) fn request(case: &str, request: &str, problem: &str) -> Option<&'static str> {
    let has = |part: &str| request.contains(part);
    let extra = problem == "is made here only";
    Some(match case {
        "push-offline" if has("/artifact") && !has("/lineage/") => FILE_BY_FILE,
        "push-offline" if has("/sync?") => OWN_RECORD,
        "push-offline" if extra => RESUMED,
        "pull-remote" if has("/artifact") => FILE_BY_FILE,
        "online-default" if has(r#""outputs":{"loss":0.25}"#) => ONCE,
        "online-metric-values" if has(r#""outputs":{"dup":1.0,"s":1.5"#) => ONCE,
        "online-metric-values" => COLLISION,
        "online-status" | "online-existing-run" if extra && has("GET /api") => CHECKED,
        "online-status" if extra && has(r#""type":"running""#) => RUNNING,
        "online-status" | "online-existing-run" if extra => COLLECTED,
        "online-refs" if has("bogus-kind") => KINDS,
        "online-refs" if has("dataset3") => OBJECTS,
        "online-refs" if has("tensorboard") => TENSORBOARDS,
        "online-refs" if has(r#""name":"m1""#) || has(r#""name":"m2""#) => IN_ONE,
        "online-io" if has("progress") => FLOAT,
        "online-io" if has("tags") || has("? {}") => LISTS,
        "online-io" if has(r#""e":3"#) => COLLISION,
        "online-io" if extra && (has("np32") || has("obj")) => NUMBERS,
        _ => return None,
    })
}
