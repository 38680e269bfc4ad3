//! The service over real HTTP, as any client sees it: routes, statuses, headers, bodies, limits,
//! processes and files.

mod control;
mod exec;
mod files;
mod gateway;
mod harness;
mod lifetime;
