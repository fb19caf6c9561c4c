"""The views of Cross-View Training by name. Light to import, so that `--help` can list them without Keras."""

# What a module sees of a word -> the part of the network's `views` that it reads, and the place, relative to that word, of the word
# whose class it predicts (Clark et al., 2018, section 3.2). The state of the words up to the one before says nothing of the word
# itself.
VIEWS = {
    "forward": ("forward", 0),
    "backward": ("backward", 0),
    "future": ("forward", 1),
    "past": ("backward", -1),
    "full": ("full", 0),
}
USUAL = "forward,backward,future,past"
