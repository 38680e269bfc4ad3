//! Commands: `exec`, `exec/stream`, `exec/bg`. Each exec of any kind has a record and its output on
//! disk until it is deleted.

mod background;
mod child;
mod exec;
mod log;
mod oneshot;
mod pump;
mod record;
mod request;
mod run;
mod signal;
mod spawn;
mod store;
mod stream;
mod table;
mod tag;
mod text;
mod tree;

pub(crate) use self::background::{delete, get, list, logs, send_signal, start};
pub(crate) use self::child::{Child, Spawned};
pub(crate) use self::oneshot::exec;
pub(crate) use self::request::Command;
pub(crate) use self::signal::{
    allowed as allowed_signal, name as signal_name, number as signal_number,
};
pub(crate) use self::spawn::{BaseEnv, Site, Streams, spawn, workdir_not_found};
pub(crate) use self::stream::exec_stream;
pub(crate) use self::table::Table;
pub(crate) use self::tag::check as check_tag;
pub(crate) use self::tree::Tree;
