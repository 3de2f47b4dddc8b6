from taskmaster.v1 import bulk_pb2 as _bulk_pb2
from taskmaster.v1 import events_pb2 as _events_pb2
from taskmaster.v1 import inspection_pb2 as _inspection_pb2
from taskmaster.v1 import overview_pb2 as _overview_pb2
from taskmaster.v1 import queues_pb2 as _queues_pb2
from taskmaster.v1 import schedules_pb2 as _schedules_pb2
from taskmaster.v1 import stream_pb2 as _stream_pb2
from taskmaster.v1 import tasks_pb2 as _tasks_pb2
from taskmaster.v1 import waits_pb2 as _waits_pb2
from taskmaster.v1 import topics_pb2 as _topics_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
