//! The OpenAI-compatible model against answers that real servers gave, and against faults.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod models;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod request;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod streamed;
#[cfg(test)]
mod stub;
