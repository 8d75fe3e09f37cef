"""How much each iteration drafts, where measured times decide it.

Begin with `choice`: a level is a share of all drafts that there may be, and the one that gains most
tokens a second runs. `acceptances` and `times` hold what was measured, `rates` makes tokens a
second of both, and `trials` says when another level is tried. All of it belongs to one LevelChoice;
the loop asks it before an iteration, and tells it what came of one.
"""
