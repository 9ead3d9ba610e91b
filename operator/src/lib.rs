//! The Filestore resource: types, validation and the pod it stands for.
