/* The part of `apart.hip` that is C: a C++ compiler would not take its name of a variable. */
int three_times(int class) { return 3 * class; }
