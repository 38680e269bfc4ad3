//! The Python client against our local server.
