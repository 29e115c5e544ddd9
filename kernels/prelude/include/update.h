// update.h: what scattering does to an element that is already there: 0 assign, 1 add, 2 multiply, 3 minimum, 4 maximum.
// 16-bit floats compute in float and round; integers wrap around; minimum and maximum keep the old value unless the new
// one is strictly smaller or larger, so that a NaN that arrives is passed over and one that is there stays (Burn's Flex).
#ifndef ROCFIRE_UPDATE_H
#define ROCFIRE_UPDATE_H
namespace rf {

// The type that sums and products are computed in: unsigned for integers, where overflow is defined.
template <class T> struct Ring { typedef T type; };
template <> struct Ring<f16> { typedef float type; };
template <> struct Ring<bf16> { typedef float type; };
template <> struct Ring<i8> { typedef u32 type; };
template <> struct Ring<i16> { typedef u32 type; };
template <> struct Ring<i32> { typedef u32 type; };
template <> struct Ring<i64> { typedef u64 type; };
template <> struct Ring<u8> { typedef u32 type; };
template <> struct Ring<u16> { typedef u32 type; };
template <class T> RF_FN typename Ring<T>::type to_ring(T x) { return cast<typename Ring<T>::type>(x); }

template <int KIND> struct Update;
template <> struct Update<0> { template <class T> RF_FN static T of(T, T value) { return value; } };
template <> struct Update<1> {
    template <class T> RF_FN static T of(T old, T value) { return cast<T>(to_ring(old) + to_ring(value)); }
};
template <> struct Update<2> {
    template <class T> RF_FN static T of(T old, T value) { return cast<T>(to_ring(old) * to_ring(value)); }
};
template <> struct Update<3> {
    template <class T> RF_FN static T of(T old, T value) { return Wide<T>::of(value) < Wide<T>::of(old) ? value : old; }
};
template <> struct Update<4> {
    template <class T> RF_FN static T of(T old, T value) { return Wide<T>::of(value) > Wide<T>::of(old) ? value : old; }
};

}  // namespace rf
#endif
