use super::Sample;

#[test]
fn a_sample_is_spread_evenly_and_has_the_size_asked_for() {
    for (groups, most) in [(10, 3), (16, 4), (17, 16), (1000, 7), (5, 5), (5, 9), (1, 1)] {
        let sample = Sample { groups: Some(most), skip_others: false, timeline: false };
        let chosen: Vec<u64> = (0..groups).filter(|&group| sample.includes(group, groups)).collect();
        let wanted: Vec<u64> = match most < groups {
            true => (0..most).map(|i| i * groups / most).collect(),
            false => (0..groups).collect(),
        };
        assert_eq!(chosen, wanted, "{most} of {groups}");
    }
    assert!((0..100).all(|group| Sample::default().includes(group, 100)));
}
