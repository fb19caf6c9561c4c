"""The names of the options of early exit. Light to import, so that `--help` can list them without Keras."""

EXIT, SELECT = "exit", "select"
EXIT_MODES = (EXIT, SELECT)
DISTILLATIONS = (
    "teacher_first",
    "student_first",
)  # which of the two is the first argument of the KL divergence between a student and its teacher
