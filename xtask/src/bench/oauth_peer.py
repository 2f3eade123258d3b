"""django-oauth-toolkit's own cleaner, as its users run it, on a database of its own.

Usage: oauth_peer.py prepare REVOKED LIVE | clean [BATCH_SIZE]

Takes the server from PGHOST, PGPORT, PGUSER, PGPASSWORD and PGDATABASE. Prints one JSON object. Without BATCH_SIZE
everything is as the package has it by default.
"""

import datetime
import json
import os
import sys
import time

import django
from django.conf import settings

batch = {"CLEAR_EXPIRED_TOKENS_BATCH_SIZE": int(sys.argv[2])} if sys.argv[1] == "clean" and sys.argv[2:] else {}
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "oauth2_provider"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["PGDATABASE"],
            "HOST": os.environ["PGHOST"],
            "PORT": os.environ["PGPORT"],
            "USER": os.environ["PGUSER"],
            "PASSWORD": os.environ["PGPASSWORD"],
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    OAUTH2_PROVIDER=batch,
    SECRET_KEY="synthetic",
    USE_TZ=True,
)
django.setup()

from django.contrib.auth import get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402
from oauth2_provider.models import AccessToken, Application, RefreshToken, clear_expired  # noqa: E402

CHUNK = 5000


def chunks(number):
    for first in range(0, number, CHUNK):
        yield range(first, min(first + CHUNK, number))


def prepare(revoked, live):
    call_command("migrate", verbosity=0, interactive=False)
    user = get_user_model().objects.create(username="synthetic")
    application = Application.objects.create(name="synthetic", client_type="public", authorization_grant_type="password")
    now = timezone.now()
    common = {"user": user, "application": application}
    for chunk in chunks(revoked):
        RefreshToken.objects.bulk_create(
            RefreshToken(token=f"revoked-{n}", revoked=now - datetime.timedelta(days=100), **common) for n in chunk
        )
    for chunk in chunks(live):
        expires = now + datetime.timedelta(days=30)
        access = AccessToken.objects.bulk_create(
            AccessToken(token=f"access-{n}", expires=expires, scope="read", **common) for n in chunk
        )
        RefreshToken.objects.bulk_create(
            RefreshToken(token=f"live-{n}", access_token=token, **common) for n, token in zip(chunk, access)
        )
    return {"revoked": revoked, "live": live}


def clean():
    before = RefreshToken.objects.count()
    began = time.perf_counter()
    clear_expired()
    seconds = time.perf_counter() - began
    after = RefreshToken.objects.count()
    return {"seconds": seconds, "deleted": before - after, "left": after}


print(json.dumps(prepare(int(sys.argv[2]), int(sys.argv[3])) if sys.argv[1] == "prepare" else clean()))
