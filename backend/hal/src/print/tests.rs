use super::*;

fn text(format: &str, arguments: &[Argument<'_>]) -> String {
    let mut out = Vec::new();
    formatted(format.as_bytes(), arguments, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn conversions_are_c_s() {
    let int = |value: i64| Argument::Integer(value as u64);
    let rows: &[(&str, Argument<'_>, &str)] = &[
        ("%d", int(-7), "-7"),
        ("%5d|", int(42), "   42|"),
        ("%-5d|", int(42), "42   |"),
        ("%05d", int(-42), "-0042"),
        ("%+d", int(3), "+3"),
        ("% d", int(3), " 3"),
        ("%.4d", int(42), "0042"),
        ("%u", int(-1), "4294967295"),
        ("%lu", int(-1), "18446744073709551615"),
        ("%llx", int(0xabc), "abc"),
        ("%#X", int(0xabc), "0XABC"),
        ("%hhd", int(0x1ff), "-1"),
        ("%hu", int(-1), "65535"),
        ("%zu", int(1 << 40), "1099511627776"),
        ("%o", int(8), "10"),
        ("%c", int(65), "A"),
        ("%p", int(0xbeef), "0xbeef"),
        ("%f", Argument::Real(1.5), "1.500000"),
        ("%.2f", Argument::Real(-0.005), "-0.01"),
        ("%8.3f|", Argument::Real(2.71539), "   2.715|"),
        ("%08.3f", Argument::Real(-2.71539), "-002.715"),
        ("%e", Argument::Real(12345.678), "1.234568e+04"),
        ("%.0e", Argument::Real(0.0001), "1e-04"),
        ("%g", Argument::Real(0.0001), "0.0001"),
        ("%g", Argument::Real(1e-5), "1e-05"),
        ("%g", Argument::Real(1234567.0), "1.23457e+06"),
        ("%g", Argument::Real(100000.0), "100000"),
        ("%.3G", Argument::Real(1e10), "1E+10"),
        ("%a", Argument::Real(1.5), "0x1.8p+0"),
        ("%f", Argument::Real(f64::NEG_INFINITY), "-inf"),
        ("%5.1F|", Argument::Real(f64::NAN), "  NAN|"),
        ("%s", Argument::Text(0, b"lane"), "lane"),
        ("%.2s|", Argument::Text(0, b"lane"), "la|"),
        ("%6s|", Argument::Text(0, b"lane"), "  lane|"),
    ];
    for (format, argument, expected) in rows {
        assert_eq!(text(format, std::slice::from_ref(argument)), *expected, "{format}");
    }
    assert_eq!(text("%*d and %-*d|%%", &[int(4), int(1), int(3), int(2)]), "   1 and 2  |%");
    assert_eq!(text("100%", &[]), "100%");
    assert_eq!(text("%d %d", &[int(1)]), "1 ");
}

#[test]
fn records_end_where_they_are_cut_short() {
    let mut records = Vec::new();
    for word in [(1_u64 << 32) | 5, 3, u64::from_le_bytes(*b"%d\n\0\0\0\0\0"), 0, 7] {
        records.extend(word.to_le_bytes());
    }
    assert_eq!(render(&records), b"7\n");
    for cut in 0..records.len() {
        assert_eq!(render(&records[..cut]), b"", "{cut}");
    }
    let twice = [records.clone(), records].concat();
    assert_eq!(render(&twice), b"7\n7\n");
    assert_eq!(render(&[0; 64]), b"");
}
