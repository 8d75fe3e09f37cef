"""The device state of each slot, a request's fixed place from its admission to its release.

Begin with `table`; `nodes` and `drafts` are parts of it. The step owns a table; grammar callbacks
write into its nodes.
"""

from specguide.slots.drafts import SlotDrafts
from specguide.slots.nodes import SlotNodes
from specguide.slots.table import Slots, SlotSizes, SlotTable

__all__ = ["SlotDrafts", "SlotNodes", "SlotSizes", "SlotTable", "Slots"]
