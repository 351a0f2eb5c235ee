"""Compares the files on which readers of the AWS command line are tested with the output shapes of botocore's service models.

    python shapes.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import botocore.session

FILES = Path(__file__).parents[2] / "cli/tests/cmd/prices.in"
COMMANDS = {
    "products.json": ("pricing", "GetProducts"),
    "spot.json": ("ec2", "DescribeSpotPriceHistory"),
    "offerings.json": ("ec2", "DescribeInstanceTypeOfferings"),
    "quotas.json": ("service-quotas", "ListServiceQuotas"),
    "savings-plans.json": ("savingsplans", "DescribeSavingsPlansOfferingRates"),
}
KINDS = {"string": str, "timestamp": str, "double": float, "boolean": bool, "long": int, "integer": int}


def differences(value: Any, shape: Any, place: str) -> list[str]:
    """Lists what of a value is not of a shape."""
    if shape.type_name == "structure":
        unknown = [f"{place}.{name} is not in {shape.name}" for name in value if name not in shape.members]
        known = [pair for pair in value.items() if pair[0] in shape.members]
        return unknown + [told for name, own in known for told in differences(own, shape.members[name], f"{place}.{name}")]
    if shape.type_name == "list":
        return [told for index, own in enumerate(value) for told in differences(own, shape.member, f"{place}[{index}]")]
    if not isinstance(value, KINDS[shape.type_name]):
        return [f"{place} is {value!r}, but {shape.type_name}"]
    allowed = getattr(shape, "enum", None)
    return [f"{place} is {value!r}, but one of {allowed}"] if allowed and value not in allowed else []


def main() -> int:
    session = botocore.session.get_session()
    found = []
    for file, (service, operation) in COMMANDS.items():
        shape = session.get_service_model(service).operation_model(operation).output_shape
        found += differences(json.loads((FILES / file).read_text("utf-8")), shape, file)
    print("\n".join(found) or f"{len(COMMANDS)} files have the shapes of botocore's models")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
