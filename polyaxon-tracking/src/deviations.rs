//! Where this crate does something else than the Python module, and why.
//!
//! The files and calls are those of polyaxon 2.18.0 with traceml 1.5.0, but for what stands here.
//! `cargo run -p polyaxon-tests --bin tracking_report` makes 31 recorded runs of that module again
//! and shows every difference with its reason; one without a reason fails a test.
//!
//! # What is refused at the call
//!
//! | there | here |
//! |---|---|
//! | a name of which nothing is left, or that is too long, ends the writer or costs the metadata | [`Error::InvalidName`](crate::Error::InvalidName) |
//! | two names that are stored as one share a file; of two things of one name, the lineage hides one | [`Error::NameCollision`](crate::Error::NameCollision), which shows both |
//! | a value without a form in JSON drops the whole call, or empties `run.plx.json` | [`Error::NotJson`](crate::Error::NotJson); files are replaced whole |
//! | an absolute path, or one with `..`, leaves the run's folder | [`Error::InvalidPath`](crate::Error::InvalidPath) |
//! | a matrix or histogram whose lengths do not fit is a warning | [`Error::InvalidEvent`](crate::Error::InvalidEvent) |
//! | a folder that is copied a second time raises | [`Error::Exists`](crate::Error::Exists) |
//! | a full queue blocks the caller, for ever where the writer has failed | [`Error::QueueFull`](crate::Error::QueueFull) |
//! | calls after the end do nothing | [`Error::Ended`](crate::Error::Ended) |
//!
//! # What is written otherwise
//!
//! | there | here |
//! |---|---|
//! | a bar in a payload breaks its line for every reader | it is written as `\u007c`, which readers take |
//! | last values and summaries can be off by one in the last place | they are exact |
//! | lines are on the disk after up to ten seconds | within moments |
//! | metadata of offline runs is written at the end | from the start on, and about every second |
//! | two processes that begin a file can cut each other's header | a file gets its name with its header in it, and lines are appended whole |
//! | the hash of a folder depends on the order of its listing | files are read in the order of their paths |
//! | the hash of `env.json` is that of a Python object's text | of the bytes of the file |
//! | the hash of an object is that of its text in Python | a hash is of bytes: [`ArtifactRef::hash_of`](crate::ArtifactRef::hash_of) |
//! | `env.json` has arguments, an interpreter and its packages | process, host, system, user and program: arguments can hold secrets |
//! | a default table has the extension `V1ArtifactKind.CSV` | `csv` |
//! | standard output is captured, and echoed to standard error | what is to be kept is handed to [`LogCapture`](crate::LogCapture); the streams are left alone |
//! | only the first `TensorBoard` of a run is registered | every one, under its own name |
//! | a URL of a git remote keeps the password in it | it is left out |
//!
//! # What is sent otherwise
//!
//! | there | here |
//! |---|---|
//! | failures are silent | they are tried again where that can help; the rest is in the [`Report`](crate::Report) |
//! | the end is made two to three times, and the status before the files | once, and the status last: a run that says it has ended is complete |
//! | every pass uploads whole files and posts all summaries | what has changed, and large files once they have grown by half |
//! | a file that is gone here is deleted on the server | nothing is ever deleted |
//! | a value that is told by `log_metric` is posted as an output, and again from its file | once, from its file |
//! | a change of nothing is sent: no tags, for one | no change is no call |
//! | raw lineage records can lack a direction and have unknown kinds | they are references: [`ArtifactRef::named`](crate::ArtifactRef::named) |
//! | two headers, `header_name` and `header_value`, come along by mistake | they do not |
//! | the configuration, token included, is printed with errors | no error or log holds a token |
//! | certificates are not checked unless asked for | they are, unless told not to |
//! | 405 with an empty body is an error | on the open-source server it means a locked database and is tried again, until others got through and it did not |
//!
//! # Where a run is tracked
//!
//! | there | here |
//! |---|---|
//! | a cached `.project` goes before the run of the pod | the pod's run goes first |
//! | an explicit project in a pod loses the run's id | it must be the pod's: [`Error::OtherProject`](crate::Error::OtherProject) |
//! | a cached `.run` is continued | only a run that the program names |
//! | events can be switched off, and are then dropped with a warning | they are always kept |
//! | a run of somebody else logs no events unless told to | it logs them: nothing is dropped with a warning |
//! | the environment, the code and the machine's load are logged unless told not to | where [`Tracking`](crate::Tracking) says so; `POLYAXON_COLLECT_RESOURCES` is followed |
//! | `end` of a run that goes nowhere raises | it works; see [`Tracking::no_op`](crate::Tracking::no_op) |
//! | an existing run that cannot be found fails later, silently | it is looked up: an error of the start |
//! | a second run in the folder of another takes up its files | the record in the folder must be the run's: [`Error::OtherRun`](crate::Error::OtherRun) |
//! | a folder that cannot be made is passed over, and the run has no files | it is tried before the run is created |
//! | SIGTERM leaves the run running | [`end_on_signal`](crate::TrackedRun::end_on_signal), on request |
//! | the end sleeps for `POLYAXON_TRACKING_FLUSH_DELAY` | it does not: it knows when it is done |
//!
//! # Push and pull
//!
//! | there | here |
//! |---|---|
//! | a push that broke off cannot be resumed | it is completed: see [`push`](crate::push()) |
//! | a folder does not say what of it a server has | that is noted in it, as `sent.plx.json`, which the platform's client leaves alone |
//! | a run without lineage is not uploaded | it is |
//! | an archive replaces the run's whole folder on the server | files are sent one by one, and none is deleted |
//! | `.polyaxonignore` leaves files out | all files are sent, but for links and what is in `.git` |
//! | a pull fetches one archive, which two pulls at once can mix up | file by file |
//! | a pull removes the local folder first | it replaces files, and the record comes last |
//!
//! # What is not offered
//!
//! Pictures and films come as files, not as arrays: encoding them is the program's. Tags are lists and
//! not YAML in a text; a kind is one of the platform's. There is no catalogue of stores, so no path in
//! one.
