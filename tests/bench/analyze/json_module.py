"""What `fusecalc analyze` answers, as one would write it in Python: json_module.py FILE."""

import json
import sys

with open(sys.argv[1]) as file:
    operations = json.load(file)

unfused = sum(op["input_size"] + op["output_size"] for op in operations) * 2
fused = (operations[0]["input_size"] + operations[-1]["output_size"]) * 2
savings = unfused - fused
print(json.dumps({
    "unfused_bytes": unfused,
    "fused_bytes": fused,
    "savings_bytes": savings,
    "savings_pct": round(savings / unfused * 100, 2),
    "speedup_estimate": round(unfused / fused, 2),
}))
