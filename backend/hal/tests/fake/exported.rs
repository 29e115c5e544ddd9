//! What both libraries export their functions by.

/// Functions under AMD's names; those that have one before it, with `--cfg cuda` under NVIDIA's.
macro_rules! exported {
    () => {};
    (fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int $body
        exported! { $($rest)* }
    };
    ($cuda:literal fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block $($rest:tt)*) => {
        #[cfg_attr(not(cuda), unsafe(no_mangle))]
        #[cfg_attr(cuda, unsafe(export_name = $cuda))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int $body
        exported! { $($rest)* }
    };
}
