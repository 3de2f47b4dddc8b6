"""Asks a proxy as KEDA does, with plain generated stubs.

    python external_scaler.py <folder of the stubs> <host:port>

Prints a line of JSON for each step, the last one when the proxy ends the stream. Fails with a traceback.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import grpc
from externalscaler import externalscaler_pb2 as e
from externalscaler import externalscaler_pb2_grpc
from google.protobuf.json_format import MessageToDict

TIMEOUT = 20
scaler = externalscaler_pb2_grpc.ExternalScalerStub(grpc.insecure_channel(sys.argv[2]))


def scaled_object(**metadata):
    metadata = {"scalerAddress": sys.argv[2], "group": "shop", "targetTasks": "2.5", **metadata}
    return e.ScaledObjectRef(name="workers", namespace="shop", scalerMetadata=metadata)


def say(message):
    print(json.dumps(message if isinstance(message, dict) else MessageToDict(message)), flush=True)


mail = scaled_object(queue="mail")
activity = scaler.StreamIsActive(mail)
say({"active": next(activity).result})
say({"active": next(activity).result})
say(scaler.IsActive(scaled_object(pattern="#mail$"), timeout=TIMEOUT))
say(scaler.GetMetricSpec(mail, timeout=TIMEOUT))
say(next(scaler.StreamMetricSpec(mail, timeout=TIMEOUT)))
say(scaler.GetMetrics(e.GetMetricsRequest(scaledObjectRef=mail, metricName="taskmaster-tasks"), timeout=TIMEOUT))
try:
    scaler.IsActive(scaled_object(queue="mail", pattern="mail"), timeout=TIMEOUT)
except grpc.RpcError as error:
    say({"refused": error.code().name, "text": error.details()})
for _ in activity:
    pass
say({"ended": activity.code().name})
