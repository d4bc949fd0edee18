//! Element formats, shapes and planes of Metal tensors: facts about bits.
