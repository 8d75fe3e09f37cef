"""Adaptive drafting: measured times and acceptances decide how much each iteration drafts.

Begin with `choice`: a level is a part of the draft layout, and the level that gains most tokens a
second runs. `acceptances` and `times` hold what was measured, `rates` computes tokens a second from
both, and `trials` decides when another level is tried. All of it belongs to one LevelChoice; the
loop asks it for the levels of each iteration, and gives it the results.
"""
