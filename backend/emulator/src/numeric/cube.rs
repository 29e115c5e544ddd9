//! The four steps of choosing a cube map's face: `v_cubeid`, `v_cubesc`, `v_cubetc`, `v_cubema`.

/// Which axis is the major one: z wins a tie over y, y over x.
#[inline(always)]
fn major(x: f32, y: f32, z: f32) -> usize {
    if z.abs() >= x.abs() && z.abs() >= y.abs() {
        2
    } else if y.abs() >= x.abs() {
        1
    } else {
        0
    }
}

/// Face number: 0 +x, 1 −x, 2 +y, 3 −y, 4 +z, 5 −z.
#[inline(always)]
pub(crate) fn cube_id(x: f32, y: f32, z: f32) -> f32 {
    let axis = major(x, y, z);
    let along = [x, y, z][axis];
    (2 * axis) as f32 + if along < 0.0 { 1.0 } else { 0.0 }
}

/// S coordinate on the face.
#[inline(always)]
pub(crate) fn cube_sc(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        2 => {
            if z < 0.0 {
                -x
            } else {
                x
            }
        }
        1 => x,
        _ => {
            if x < 0.0 {
                z
            } else {
                -z
            }
        }
    }
}

/// T coordinate on the face.
#[inline(always)]
pub(crate) fn cube_tc(x: f32, y: f32, z: f32) -> f32 {
    match major(x, y, z) {
        1 => {
            if y < 0.0 {
                -z
            } else {
                z
            }
        }
        _ => -y,
    }
}

/// Twice the coordinate along the major axis.
#[inline(always)]
pub(crate) fn cube_ma(x: f32, y: f32, z: f32) -> f32 {
    2.0 * [x, y, z][major(x, y, z)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_axis_has_its_two_faces() {
        let axes = [
            (1.0, 0.5, 0.25),
            (-1.0, 0.5, 0.25),
            (0.5, 1.0, 0.25),
            (0.5, -1.0, 0.25),
            (0.5, 0.25, 1.0),
            (0.5, 0.25, -1.0),
        ];
        let want = [
            (-0.25, -0.5, 2.0),
            (0.25, -0.5, -2.0),
            (0.5, 0.25, 2.0),
            (0.5, -0.25, -2.0),
            (0.5, -0.25, 2.0),
            (-0.5, -0.25, -2.0),
        ];
        for (face, ((x, y, z), (sc, tc, ma))) in axes.into_iter().zip(want).enumerate() {
            assert_eq!(cube_id(x, y, z), face as f32);
            assert_eq!((cube_sc(x, y, z), cube_tc(x, y, z), cube_ma(x, y, z)), (sc, tc, ma));
        }
    }
}
