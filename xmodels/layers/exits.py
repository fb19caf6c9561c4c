"""How texts leave a network early, by name. Light to import, so that `--help` lists it without Keras."""

EXIT, SELECT = "exit", "select"
EXIT_MODES = (EXIT, SELECT)
DISTILLATIONS = (
    "teacher_first",
    "student_first",
)  # which of the two leads in the divergence of a student from its teacher
