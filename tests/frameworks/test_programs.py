"""Programs that other frameworks start: Django, Celery, notebooks, pytest with plugins, terminals.

Each runs in a process of its own, as its users start it.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def carried_out(tmp_path: Path, code: str, *command: str) -> str:
    """Write a program, run it, and return what it printed."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, *(command or [str(program)])],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_views_of_django_on_wsgi_and_asgi(tmp_path: Path) -> None:
    said = carried_out(
        tmp_path,
        """
        import anyio, django, httpx
        from django.conf import settings
        from django.core.asgi import get_asgi_application
        from django.core.wsgi import get_wsgi_application
        from django.http import HttpResponse
        from django.urls import path
        import nighthawk_async as nh
        from tests.frameworks.programs import executor, stars, stars_sync

        settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of a test")
        django.setup()
        run = nh.start_run_sync(executor, everywhere=True)  # in AppConfig.ready()

        def rate(request, review):
            return HttpResponse(stars_sync(review))

        async def rate_async(request, review):
            return HttpResponse(await stars(review))

        urlpatterns = [path("sync/<review>", rate), path("async/<review>", rate_async)]

        def ask_wsgi(url):
            with httpx.Client(transport=httpx.WSGITransport(get_wsgi_application())) as client:
                return client.get(url).text

        async def ask_asgi(url):
            transport = httpx.ASGITransport(get_asgi_application())
            async with httpx.AsyncClient(transport=transport) as client:
                return (await client.get(url)).text

        for name in ("sync", "async"):
            print(ask_wsgi(f"http://here/{name}/***"), anyio.run(ask_asgi, f"http://here/{name}/**"))
        run.close()
        """,
    )
    assert said.split() == ["3", "2", "3", "2"]


def test_tasks_of_a_worker_of_celery(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    said = carried_out(
        tmp_path,
        """
        import subprocess, sys
        from celery import Celery
        from celery.signals import worker_process_init, worker_process_shutdown
        import nighthawk_async as nh
        from tests.frameworks.programs import executor, stars_sync

        folders = {"data_folder_in": "queue", "data_folder_out": "queue", "processed_folder": "done"}
        app = Celery("program", broker="filesystem://", backend="file://.")
        app.conf.update(broker_transport_options=folders, worker_hijack_root_logger=False)
        runs = []

        @worker_process_init.connect
        def open_run(**_):
            runs.append(nh.start_run_sync(executor, everywhere=True))

        @worker_process_shutdown.connect
        def close_run(**_):
            runs.pop().close()

        @app.task
        def rate(review):
            return stars_sync(review)

        if __name__ == "__main__":
            command = ["-m", "celery", "-A", "program", "worker", "-c", "2", "-l", "ERROR"]
            worker = subprocess.Popen([sys.executable, *command], stdout=2)
            from program import rate
            pending = [rate.delay("*" * count) for count in range(1, 5)]
            print([each.get(timeout=120) for each in pending])
            worker.terminate()
            print(worker.wait())
        """,
    )
    assert said.splitlines() == ["[1, 2, 3, 4]", "0"]


def test_cells_of_a_notebook_have_a_context_each(tmp_path: Path) -> None:
    said = carried_out(
        tmp_path,
        """
        import nbclient, nbformat

        sources = [
            "import nighthawk_async as nh\\n"
            "from tests.frameworks.programs import executor, stars, stars_sync\\n"
            "run = await nh.start_run(executor, everywhere=True)",
            "await stars('***')",
            "import anyio\\nawait anyio.to_thread.run_sync(stars_sync, '**')",
            "with run.active():\\n    rated = await nh.parallel.map(stars, ['*', '**'])\\nrated",
            "await run.aclose()",
        ]
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(each) for each in sources]
        nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
        print(*(each.outputs[0].data["text/plain"] for each in notebook.cells if each.outputs))
        """,
    )
    assert said == "3 2 [1, 2]\n"


def test_fixtures_of_the_plugins_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    (tmp_path / "test_program.py").write_text(
        textwrap.dedent(
            """
            import pytest, pytest_asyncio, pytest_trio
            import nighthawk_async as nh
            from tests.frameworks.programs import executor, stars

            @pytest_asyncio.fixture
            async def started_run():
                run = await nh.start_run(executor, everywhere=True)
                yield run
                await run.aclose()

            @pytest.mark.asyncio
            async def test_with_asyncio(started_run):
                assert await stars("***") == 3
                with started_run.active():
                    assert nh.current_task().id.startswith("run/")

            @pytest_trio.trio_fixture
            async def trio_run():
                async with nh.run(executor, everywhere=True) as run:
                    yield run

            @pytest.mark.trio
            async def test_with_trio(trio_run):
                assert await stars("**") == 2

            @pytest.fixture
            async def run(anyio_backend):
                async with nh.run(executor, everywhere=True) as run:
                    yield run

            @pytest.mark.anyio
            async def test_with_anyio(run):
                assert await stars("***") == 3
            """
        )
    )
    said = carried_out(tmp_path, "", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_program.py")
    assert "4 passed" in said


def test_lines_of_ipython_and_callbacks_of_a_terminal_interface(tmp_path: Path) -> None:
    said = carried_out(
        tmp_path,
        """
        import anyio
        from IPython.core.interactiveshell import InteractiveShell
        from textual.app import App
        from textual.widgets import Label
        import nighthawk_async as nh
        from tests.frameworks.programs import executor, stars

        class Rating(App):
            async def on_mount(self):
                self.run_of_app = await nh.start_run(executor, everywhere=True)
                await self.mount(Label("…"))

            async def on_key(self, event):
                self.query_one(Label).update(str(await stars("***")))

            async def on_unmount(self):
                await self.run_of_app.aclose()

        async def press():
            async with Rating().run_test() as pilot:
                await pilot.press("r")
                print(pilot.app.query_one(Label).content)

        anyio.run(press)
        shell = InteractiveShell.instance()
        for line in (
            "import nighthawk_async as nh; from tests.frameworks.programs import executor, stars",
            "run = await nh.start_run(executor, everywhere=True)",
            "rated = await stars('**')",
            "await run.aclose()",
        ):
            shell.run_cell(line).raise_error()
        print(shell.user_ns["rated"])
        """,
    )
    assert said.split() == ["3", "2"]
