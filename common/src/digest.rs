//! Digests of object bodies.
