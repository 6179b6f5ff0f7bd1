"""Prints what a Baler answers at /metrics that has served nothing yet.

usage: metrics.py PATH_TO_BALER
"""

import sys
import urllib.request

from processes import Baler

with Baler(sys.argv[1]) as baler:
    print(urllib.request.urlopen(f"{baler.admin}/metrics", timeout=10).read().decode(), end="")
